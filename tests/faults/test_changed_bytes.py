"""A changed byte of a real image is found, wherever it lies, by whatever looks at the image."""

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from lumicontainer.image import digests, sif, sif_format
from lumicontainer.image.digests import CHANGED, WHOLE

from ..integration.conftest import ENGINE, lumicontainer, recipes, small
from ..programs import run
from ..unit.image.test_digests import flip, flipped

__all__ = ["recipes", "small"]

FLIPS = 40
"""Of a real image; of a small one every byte is flipped, in test_digests."""


class Image(NamedTuple):
    """Hold an image that a test may change, and the folder of its recipe."""

    path: Path
    recipes: Path

    def build(self, *words: object) -> subprocess.CompletedProcess[str]:
        where = ("--recipes", self.recipes, "--output", self.path)
        done = lumicontainer("build", "small", *where, "--no-verify", *words)
        assert done.returncode == 0, done.stderr
        return done

    def is_current(self) -> bool:
        """Return whether ``build`` takes it for up to date."""
        return bool(json.loads(self.build("--dry-run", "--json").stdout)["up_to_date"])


@pytest.fixture(scope="module")
def built(small: Path, recipes: Path) -> Image:
    """Build the small image."""
    image = Image(small.with_name("changed.sif"), recipes)
    image.build()
    return image


@pytest.fixture
def image(built: Image, tmp_path: Path) -> Image:
    return built._replace(path=Path(shutil.copy(built.path, tmp_path / "x.sif")))


def test_every_flipped_bit_is_found(image: Image) -> None:
    """Half of the places are anywhere, half in the small parts of the image."""
    chance, size = random.Random(20251123), image.path.stat().st_size
    record = next(each for each in sif.read_objects(image.path) if each.name == digests.NAME)
    small_parts = [*range(sif.partitions(image.path)[0].offset), *range(record.offset, record.end)]
    for number in range(FLIPS):
        at = chance.randrange(size) if number % 2 else chance.choice(small_parts)
        integrity = flipped(image.path, at, number % 8)
        assert (integrity.state, bool(integrity.problems)) == (CHANGED, True), at
    assert digests.check(image.path).state == WHOLE


def test_the_commands_find_a_flipped_bit_and_say_where(image: Image) -> None:
    root = sif.root(image.path)
    assert image.is_current()
    at = root.offset + root.size // 2
    (part,) = (each for each in digests.check(image.path).parts if each.offset <= at < each.end)
    flip(image.path, at)

    assert not image.is_current()
    for words in (("inspect", "--check", image.path), ("verify", image.path)):
        done = lumicontainer(*words)
        assert done.returncode == 1, done.stdout
        assert f"{part}: " in done.stdout + done.stderr

    assert "the image has changed since it was written" in image.build().stderr
    assert lumicontainer("inspect", "--check", image.path).returncode == 0


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


def appended(image: Image, size: int) -> list[str]:
    """Return what was appended to a whole image of a size."""
    integrity = digests.check(image.path)
    assert (integrity.state, integrity.proven) == (WHOLE, size)
    return [each.name for each in integrity.appended]


def test_a_signed_image_is_whole_and_its_signature_is_listed(image: Image, tmp_path: Path) -> None:
    size, folder = image.path.stat().st_size, tmp_path / "keys"
    folder.mkdir(mode=0o700)
    env = {"APPTAINER_KEYSDIR": str(folder), "SINGULARITY_KEYSDIR": str(folder)}
    names = ["-N", "test", "-E", "test@example.org", "-C", "", "-P", "", "-U=false"]
    for words in (["key", "newpair", *names], ["sign", image.path], ["verify", "-l", image.path]):
        done = run([ENGINE, *words], env=env)
        assert done.returncode == 0, done.stderr
    assert appended(image, size) == ["signature"]
    assert image.is_current()


def test_an_image_with_an_overlay_of_its_user_is_whole(image: Image) -> None:
    size = image.path.stat().st_size
    done = run([ENGINE, "overlay", "create", "--size", "64", image.path])
    assert done.returncode == 0, done.stderr
    assert appended(image, size) == ["partition"]
