"""Eight users build at once what one of them has published: no step runs twice."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lumicontainer.cache.objects import LAYER
from lumicontainer.cache.shared.shared import SharedCache

from ..faults.test_folders_of_others import STRANGER, given_away
from .conftest import digest, events, install, lumicontainer
from .people import let_in, ordinary

Start = Callable[[int], subprocess.Popen[str]]
USERS = 8


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel where every user can run it."""
    folder = tmp_path_factory.mktemp("installed")
    let_in(folder)
    folder.chmod(0o777)
    with ordinary(folder) as user:  # Root's Python may be closed to other users.
        return install(wheel, user, folder / "venv")


@pytest.fixture
def shared(small: Path, recipes: Path, tmp_path: Path) -> Path:
    """Publish the image ``small`` for all users; return the cache."""
    del small
    for folder in (tmp_path, recipes):
        let_in(folder)
    (tmp_path / "team").mkdir()
    for folder in (tmp_path, tmp_path / "team"):
        folder.chmod(0o1777)
    env = {"LUMICONTAINER_SHARED_CACHE": str(tmp_path / "team")}
    done = lumicontainer("cache", "publish", "small", "--recipes", recipes, env=env)
    assert done.stdout == f"3 published: {tmp_path / 'team'}\n", done.stderr
    return tmp_path / "team"


@pytest.fixture
def start(shared: Path, recipes: Path, program: Path, tmp_path: Path) -> Iterator[Start]:
    """Return what starts a build as the user of a number, who has a cache alone."""
    with ExitStack() as stack:
        users = [stack.enter_context(ordinary(tmp_path, number)) for number in range(USERS)]

        def build(number: int) -> subprocess.Popen[str]:
            own = f"LUMICONTAINER_CACHE={tmp_path}/cache-{number}"
            settings = ("env", own, f"LUMICONTAINER_SHARED_CACHE={shared}", program)
            words = ("build", "small", "--recipes", recipes, "--no-verify", "--progress", "json")
            image = ("--output", tmp_path / f"{number}.sif")
            command = [str(word) for word in (*users[number], *settings, *words, *image)]
            return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

        yield build


def finished(build: subprocess.Popen[str]) -> tuple[set[str], str]:
    """Return the steps that ran in a build, and what it printed."""
    _, stderr = build.communicate(timeout=600)
    assert build.returncode == 0, stderr
    steps = {event["step"] for event in events(stderr, "end")}
    return steps & {"base", "greet", "lumicontainer"}, stderr


def test_eight_users_take_each_layer_at_once(start: Start, tmp_path: Path) -> None:
    for build in [start(number) for number in range(USERS)]:
        made, stderr = finished(build)
        assert made == set()
        assert "taken from the shared cache: " in stderr
    assert len({digest(tmp_path / f"{number}.sif") for number in range(USERS)}) == 1


def test_a_layer_that_is_damaged_or_not_trusted_is_reported_and_built(
    start: Start, shared: Path
) -> None:
    cache = SharedCache(shared, frozenset({os.geteuid()}))
    layer = next(each.layer for each in cache.entries() if each.step == "lumicontainer")
    layer.write_bytes(layer.read_bytes()[:-1] + b"x")
    damaged = f"{LAYER} has changed: its sha256 differs; its publisher is "
    for number, why in enumerate((damaged, f"its owner {STRANGER} is not trusted")):
        made, stderr = finished(start(number))
        assert made == {"lumicontainer"}
        said = "\n".join(event["text"] for event in events(stderr, "say"))
        assert f"where: {layer.parent}\n    why: {why}" in said
        given_away(layer)
