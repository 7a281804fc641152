"""A build on an image file is killed, and its base is changed while it runs."""

import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ..conftest import digest
from .chain import KILLS, Place, write_chain

REFUSED = {2, 3, 6}
"""The exit codes of a base that is not the one of its recipe, or not whole."""


def build(place: Place, *words: object) -> str:
    """Build the image that only adds files to its base; return its digest."""
    done = place.start(*words, recipe="other")
    assert done.wait() == 0, done.stderr[-3000:]
    return digest(place.image)


def lasts(place: Place) -> float:
    began = time.monotonic()
    build(place, "--rebuild")
    return time.monotonic() - began


def test_a_killed_build_of_a_base_leaves_the_image_and_the_next_goes_on(unchecked: Place) -> None:
    """Kill at random instants of the whole build."""
    longest, whole = lasts(unchecked), digest(unchecked.image)
    for _ in range(KILLS):
        killed = unchecked.start("--rebuild", recipe="other")
        time.sleep(random.uniform(0, longest))
        killed.kill()
        killed.wait()
        assert unchecked.ends(), unchecked.living()
        assert digest(unchecked.image) == whole
        assert build(unchecked, "--rebuild") == whole
        assert unchecked.left() == []


def test_two_builds_of_a_base_at_once_make_one_image(unchecked: Place) -> None:
    outputs = [unchecked.image.with_name(f"{number}.sif") for number in range(2)]
    builds = [unchecked.start("--rebuild", recipe="other", output=each) for each in outputs]
    assert [each.wait() for each in builds] == [0, 0], [each.stderr[-2000:] for each in builds]
    assert len({digest(each) for each in outputs}) == 1


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def overwrite(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        stream.write(b"other bytes" * 1000)


def replace_whole(file: Path) -> None:
    other = file.with_name("other.sif")
    shutil.copyfile(file, other)
    overwrite(other)
    other.replace(file)


@pytest.mark.parametrize("change", [truncate, replace_whole, Path.unlink])
def test_a_base_that_changes_meanwhile_is_in_no_image(
    unchecked: Place, change: Callable[[Path], None]
) -> None:
    """Change at random instants: the image is the right one, or the old one stays."""
    theirs = unchecked.recipes.with_name("base.sif")
    mine, kept = unchecked.root / "mine.sif", unchecked.root / "kept.sif"
    shutil.copyfile(theirs, kept)
    place = replace(unchecked, recipes=write_chain(unchecked.root / "recipes", kept))
    shutil.copyfile(kept, mine)
    layer = place.recipes / "layers/tiny/layer.yaml"
    layer.write_text(layer.read_text().replace(str(kept), str(mine)))
    longest, whole = lasts(place), digest(place.image)
    for _ in range(KILLS):
        mine.unlink(missing_ok=True)
        shutil.copyfile(kept, mine)
        started = place.start("--rebuild", recipe="other")
        time.sleep(random.uniform(0, longest))
        change(mine)
        code = started.wait()
        assert code in {0, *REFUSED}, started.stderr[-3000:]
        assert code == 0 or str(mine) in started.stderr, started.stderr[-3000:]
        assert "Traceback" not in started.stderr
        assert digest(place.image) == whole
        assert [*place.image.parent.glob(".*")] == []
