"""An extension is killed at random instants: no image is lost, and nothing of it stays."""

import itertools
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lumicontainer.image import records
from lumicontainer.image.digests import WHOLE
from lumicontainer.image.integrity import check_image

from .chain import KILLS, Build, Place

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
VERSIONS = ("0.9.0", "0.8.10")
"""Versions of a small package."""


@pytest.fixture
def image(base: tuple[Place, list[Build]]) -> Path:
    return base[0].image


def start(place: Place, image: Path, version: str) -> subprocess.Popen[bytes]:
    words = ["extend", str(image), f"tabulate=={version}", "--into", str(place.image)]
    command = [sys.executable, "-m", "lumicontainer", *words]
    with (place.root / "log").open("wb") as log:
        return subprocess.Popen(command, env=place.environment, stdout=log, stderr=log)


def extend(place: Place, image: Path, version: str) -> None:
    code = start(place, image, version).wait()
    assert code == 0, (place.root / "log").read_text()


def version_of(image: Path) -> str:
    """Return the version that an image got, whose every byte is as it was written."""
    assert check_image(image).state == WHOLE
    return records.packages(image)["python"]["tabulate"]


def left(place: Place) -> list[Path]:
    """Return the partial files and the working folders that are left."""
    return [*place.image.parent.glob(".*"), *place.root.rglob("extension+*")]


def test_a_killed_extend_leaves_the_old_or_the_new_image_and_the_next_goes_on(
    place: Place, image: Path
) -> None:
    """Kill or interrupt at random instants of the whole call (shown with 50)."""
    extend(place, image, VERSIONS[1])
    began = time.monotonic()
    extend(place, image, VERSIONS[0])
    lasts = time.monotonic() - began
    for number in itertools.islice(itertools.cycle(SIGNALS), KILLS):
        (new,) = {*VERSIONS} - {version_of(place.image)}
        child = start(place, image, new)
        time.sleep(random.uniform(0, lasts))
        child.send_signal(number)
        assert child.wait() in (0, 130, -number)
        assert place.ends(), place.living()
        (other,) = {*VERSIONS} - {version_of(place.image)}
        extend(place, image, other)
        assert version_of(place.image) == other
        assert left(place) == []
