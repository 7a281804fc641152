"""A damaged object of the cache is never used: it is found, moved aside with the reason, remade."""

import random
import shutil
from pathlib import Path

from lumicontainer.cache.objects import Entry
from lumicontainer.cache.store import Cache
from lumicontainer.cache.usage import uses

from ..conftest import digest
from .chain import Place, prove_all

BUILDS = 2


def flip(path: Path, at: int) -> None:
    """Flip one bit of a byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def above_the_base(cache: Cache, image: Path) -> list[Entry]:
    """Return the layers of which an image was made, without the base."""
    (names,) = (use.objects for use in uses(cache) if use.image == str(image))
    return [each for each in cache.entries() if each.name in names and each.step != "base"]


def test_a_build_replaces_a_damaged_layer_and_the_image_is_the_same(unchecked: Place) -> None:
    """The base is left out, because it takes a minute to make; the cache's own test has it."""
    unchecked.build()
    before = digest(unchecked.image)
    cache = Cache(unchecked.cache).open()
    for number in range(BUILDS):
        entry = random.choice(above_the_base(cache, unchecked.image))
        path = random.choice(sorted(entry.folder.iterdir()))
        at = random.randrange(path.stat().st_size)
        flip(path, at)
        unchecked.image.unlink()
        build = unchecked.build()
        assert build.steps("begin") == [entry.step], (path, at)
        assert digest(unchecked.image) == before
        assert len(cache.damaged()) == number + 1
        assert entry.name in list(prove_all(unchecked.cache))


def test_damage_that_unpacks_well_reaches_no_image(unchecked: Place) -> None:
    """A flipped bit of a file that is stored as it is leaves a squashfs that can be read."""
    words = ("--set", "four.value=z")
    unchecked.build(*words)
    before = digest(unchecked.image)
    cache = Cache(unchecked.cache).open()
    layers = {entry.step: entry for entry in above_the_base(cache, unchecked.image)}
    assert cache.remove(layers["four"].name)
    damaged = layers["one"].layer
    flip(damaged, damaged.stat().st_size // 2)
    shutil.rmtree(unchecked.temporary)
    unchecked.temporary.mkdir()
    unchecked.image.unlink()

    build = unchecked.build(*words)
    assert build.steps("begin") == ["one", "four"]
    assert digest(unchecked.image) == before
