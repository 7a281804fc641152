"""Another program removes files of a running build, as `rm` does and what empties /tmp."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lumicontainer.cache.objects import INDEX
from lumicontainer.cache.store import Cache
from lumicontainer.sandbox.tree.index import GONE, read_index

from ..conftest import digest
from ..processes import PATIENCE, until
from .chain import Build, Place

WAITS = """\
touch /tmp/waits
while [[ -e /tmp/waits ]]; do sleep 0.02 || true; done
"""
WORDS = ("--set", "two.value=waits")


@pytest.fixture
def waiting(unchecked: Place) -> Place:
    """Give a place with an image, in which the second layer waits for the test."""
    unchecked.build()
    recipes = unchecked.root / "recipes"
    shutil.copytree(unchecked.recipes, recipes)
    script = recipes / "layers/two/install.sh"
    script.write_text(WAITS + script.read_text())
    return replace(unchecked, recipes=recipes)


def start(place: Place) -> tuple[Build, Path]:
    """Start a build; return it and the file that its second layer waits for, once it does."""
    build = place.start(*WORDS)
    assert until(lambda: [*waits(place)], PATIENCE), build.stderr
    return build, next(iter(waits(place)))


def waits(place: Place) -> list[Path]:
    return [*place.temporary.glob("*/*/step-two/tmp/waits")]


def remove(folder: Path) -> None:
    """Remove a folder; the build may write to it meanwhile, and rm then fails."""
    subprocess.run(["rm", "-rf", folder], check=False)


def remove_cache(place: Place, waits: Path) -> None:
    remove(place.cache)
    waits.unlink()


def remove_temporary(place: Place, waits: Path) -> None:
    """Remove the folder of a build whose step cannot fail before all of it is gone."""
    assert waits.is_relative_to(place.temporary)
    (folder,) = place.temporary.iterdir()
    processes = [int(line.split()[0]) for line in place.living()]
    send(processes, signal.SIGSTOP)
    remove(folder)
    send(processes, signal.SIGCONT)


def send(processes: list[int], number: signal.Signals) -> None:
    """Send a signal to those processes that still live."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, number)


def remove_some(place: Place, waits: Path) -> None:
    """Remove what the step does not need, and then the lock, as if all was on its way out."""
    (build,) = place.trees()
    remove(build / "sandbox/tree/usr/share/doc")
    (build / "lock").unlink()
    waits.unlink()


OF_THE_BUILD = "the folder of the build was removed while it ran"
OF_THE_CACHE = "the cache was removed while a build used it"


def removals(place: Place) -> set[tuple[Path, str]]:
    """Return each path that a layer of the cache removes; a base removes what it replaces."""
    return {
        (each.folder, path)
        for each in Cache(place.cache).entries()
        for path, row in read_index(each.folder / INDEX).items()
        if row.kind == GONE
    }


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (remove_cache, OF_THE_CACHE),
        (remove_temporary, OF_THE_BUILD),
        (remove_some, OF_THE_BUILD),
    ],
)
def test_a_build_names_what_was_removed_and_makes_no_layer_of_the_rest(
    waiting: Place, act: Callable[[Place, Path], None], says: str
) -> None:
    before, of_the_base = digest(waiting.image), removals(waiting)
    build, waits = start(waiting)
    act(waiting, waits)
    assert build.wait() == 3, build.stderr[-3000:]
    assert f"error: {says}\n  where: {waiting.root}" in build.stderr, build.stderr[-3000:]
    assert "hint: repeat the command" in build.stderr
    assert digest(waiting.image) == before
    assert waiting.ends(), waiting.living()
    assert removals(waiting) <= of_the_base

    again, waits = start(waiting)
    waits.unlink()
    assert again.wait() == 0, again.stderr[-3000:]
    assert digest(waiting.image) != before
    assert waiting.left() == []
