"""A changed byte of a real image is found, wherever it lies, by whatever looks at the image."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from lumicontainer.image import digests, sif, sif_format
from lumicontainer.image.digests import CHANGED, WHOLE

from ..integration.conftest import ENGINE, FORMS, lumicontainer, recipes, small
from ..programs import run
from ..unit.test_digests import flip, flipped

__all__ = ["recipes", "small"]

FLIPS = 40
"""Of a real image; of a small one every byte is flipped, in test_digests."""
SEED = 20251123


class Image(NamedTuple):
    """Hold an image that a test may change, and the words that name it to ``build``."""

    path: Path
    words: tuple[object, ...]

    def is_current(self) -> bool:
        """Return whether ``build`` takes it for up to date."""
        done = lumicontainer("build", *self.words, "--dry-run", "--json")
        assert done.returncode == 0, done.stderr
        return bool(json.loads(done.stdout)["up_to_date"])


def words_of(form: str, recipes: Path, path: Path) -> tuple[object, ...]:
    return ("small", "--recipes", recipes, "--output", path, "--pack", form, "--no-verify")


@pytest.fixture(scope="module", params=FORMS)
def built(request: pytest.FixtureRequest, small: Path, recipes: Path) -> tuple[str, Path]:
    """Return a form that this host's engine reads, and the small image in it."""
    path = small.with_name(f"{request.param}.sif")
    done = lumicontainer("build", *words_of(request.param, recipes, path))
    assert done.returncode == 0, done.stderr
    return request.param, path


@pytest.fixture
def image(built: tuple[str, Path], recipes: Path, tmp_path: Path) -> Image:
    """Return a copy of the image."""
    form, path = built
    copy = Path(shutil.copy(path, tmp_path / "x.sif"))
    return Image(copy, words_of(form, recipes, copy))


def anywhere(path: Path) -> list[int]:
    """Return random places of an image: half of them anywhere, half in its small parts."""
    chance, size = random.Random(SEED), path.stat().st_size
    record = next(each for each in sif.read_objects(path) if each.name == digests.NAME)
    first = sif.partitions(path)[0].offset
    ends = [*range(first), *range(record.offset, record.end)]
    return [chance.randrange(size) if n % 2 else chance.choice(ends) for n in range(FLIPS)]


def test_every_flipped_bit_is_found(image: Image) -> None:
    missed = []
    for number, at in enumerate(anywhere(image.path)):
        found = flipped(image.path, at, number % 8)
        if found.state != CHANGED or not found.problems:
            missed.append(at)
    assert missed == []
    assert digests.check(image.path).state == WHOLE


def test_the_commands_find_a_flipped_bit_and_say_where(image: Image) -> None:
    overlay = sif.partitions(image.path)[-1]
    assert image.is_current()
    flip(image.path, overlay.offset + overlay.size // 2)

    assert not image.is_current()
    for words in (("inspect", "--check", image.path), ("verify", image.path)):
        done = lumicontainer(*words)
        assert done.returncode == 1, done.stdout
        assert f"{overlay.name}, bytes {overlay.offset} to {overlay.end - 1}: " in (
            done.stdout + done.stderr
        )

    done = lumicontainer("build", *image.words)
    assert done.returncode == 0, done.stderr
    assert "the image has changed since it was written" in done.stderr
    assert lumicontainer("inspect", "--check", image.path).returncode == 0


def test_a_flip_that_leaves_the_times_as_they_were_is_found_by_those_who_read(
    image: Image,
) -> None:
    assert image.is_current()
    flip(image.path, sif.partitions(image.path)[0].offset + 5000)
    assert lumicontainer("verify", image.path, "-k", "host/whole").returncode == 1


def test_an_image_without_a_record_passes_nothing_and_is_built_again(image: Image) -> None:
    """An earlier release wrote the same image without the last object."""
    record = next(each for each in sif.read_objects(image.path) if each.name == digests.NAME)
    with image.path.open("r+b") as file:
        file.seek(48)
        file.write(bytes(range(16)))
        file.seek(sif_format.DESCRIPTOR_OFFSET + (record.number - 1) * sif_format.DESCRIPTOR_SIZE)
        file.write(bytes(sif_format.DESCRIPTOR_SIZE))
    done = lumicontainer("verify", image.path, "-k", "host/whole", "--json")
    (row,) = json.loads(done.stdout)["checks"]
    assert (row["state"], done.returncode) == ("skipped", 0)
    assert "no record of its digests" in row["reason"]
    assert lumicontainer("inspect", "--check", image.path).returncode == 1
    assert not image.is_current()


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment in which the engine finds a key of the test's own."""
    folder = tmp_path_factory.mktemp("keys")
    env = {"APPTAINER_KEYSDIR": str(folder), "SINGULARITY_KEYSDIR": str(folder)}
    words = ["-N", "test", "-E", "test@example.org", "-C", "", "-P", "", "-U=false"]
    done = run([ENGINE, "key", "newpair", *words], env=env)
    assert done.returncode == 0, done.stderr
    return env


def test_an_image_that_was_signed_is_whole_and_its_signature_is_listed(
    image: Image, keys: dict[str, str]
) -> None:
    size = image.path.stat().st_size
    done = run([ENGINE, "sign", image.path], env=keys)
    assert done.returncode == 0, done.stderr
    assert run([ENGINE, "verify", "--local", image.path], env=keys).returncode == 0
    found = digests.check(image.path)
    assert (found.state, found.proven) == (WHOLE, size)
    assert [each.name for each in found.appended] == ["signature"]
    assert image.is_current()


def test_an_image_with_an_overlay_of_its_user_is_whole(image: Image) -> None:
    size = image.path.stat().st_size
    done = run([ENGINE, "overlay", "create", "--size", "64", image.path])
    assert done.returncode == 0, done.stderr
    found = digests.check(image.path)
    assert (found.state, found.proven) == (WHOLE, size)
    assert [each.name for each in found.appended] == ["partition"]
