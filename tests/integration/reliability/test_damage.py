"""A damaged object of the cache is never used: it is found, moved aside with the reason, remade."""

import random
import shutil
from pathlib import Path

from lumicontainer.build.cache.store import Cache, Entry
from lumicontainer.build.cache.usage import uses

from .chain import Place, copy, digest, prove_all

FLIPS = 28
BUILDS = 2
"""The builds of the 30 flips; the cache alone finds the others."""


def flip(path: Path) -> int:
    """Flip one bit at a random place of a file; return where."""
    with path.open("r+b") as file:
        at = random.randrange(path.stat().st_size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << random.randrange(8)]))
    return at


def some_file(entry: Entry) -> Path:
    return random.choice(sorted(entry.folder.iterdir()))


def above_the_base(cache: Cache, image: Path) -> list[Entry]:
    """Return the layers of which an image was made, without the base."""
    (names,) = (use.objects for use in uses(cache) if use.image == str(image))
    return [each for each in cache.entries() if each.name in names and each.step != "base"]


def test_a_flipped_byte_is_found_and_the_object_is_moved_aside(place: Place) -> None:
    cache = Cache(place.cache).open()
    entries = list(cache.entries())
    whole = copy(place.cache, place.root / "whole")
    for number in range(FLIPS):
        entry = random.choice(entries)
        path = some_file(entry)
        at = flip(path)
        assert cache.proven(entry.name) is None, (path, at)
        bad = cache.damaged()
        assert len(bad) == number + 1
        assert not entry.folder.exists()
        assert (bad[-1] / "reason").read_text().strip()
        for aside in bad:
            for each in aside.glob("layer.squashfs"):
                each.unlink()
        copy(whole / "objects" / entry.name, entry.folder)
    assert sorted(prove_all(place.cache)) == sorted(entry.name for entry in entries)


def test_a_build_replaces_a_damaged_layer_and_the_image_is_the_same(unchecked: Place) -> None:
    """The base is left out, because it takes a minute to make; the cache's own test has it."""
    unchecked.build()
    before = digest(unchecked.image)
    cache = Cache(unchecked.cache).open()
    for number in range(BUILDS):
        entry = random.choice(above_the_base(cache, unchecked.image))
        path = some_file(entry)
        at = flip(path)
        unchecked.image.unlink()
        build = unchecked.build()
        assert build.steps("begin") == [entry.step], (path, at)
        assert digest(unchecked.image) == before
        assert len(cache.damaged()) == number + 1
        aside = max(cache.damaged(), key=lambda bad: bad.name.rpartition("-")[2])
        assert aside.name.startswith(entry.name)
        assert (aside / "reason").read_text().strip()
        assert entry.name in list(prove_all(unchecked.cache))


def test_damage_that_unpacks_well_reaches_no_image(unchecked: Place) -> None:
    """A flipped bit of a file that is stored as it is leaves a squashfs that can be read."""
    words = ("--set", "four.value=z", "--pack", "flat")
    unchecked.build(*words)
    before = digest(unchecked.image)
    cache = Cache(unchecked.cache).open()
    layers = {entry.step: entry for entry in above_the_base(cache, unchecked.image)}
    assert cache.remove(layers["four"])
    squashfs = layers["one"].layer.read_bytes()
    middle = len(squashfs) // 2
    flipped = bytes([squashfs[middle] ^ 1])
    layers["one"].layer.write_bytes(squashfs[:middle] + flipped + squashfs[middle + 1 :])
    shutil.rmtree(unchecked.temporary)
    unchecked.temporary.mkdir()
    unchecked.image.unlink()

    build = unchecked.build(*words)
    assert build.steps("begin") == ["one", "four"]
    assert digest(unchecked.image) == before
