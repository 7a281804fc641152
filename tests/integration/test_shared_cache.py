"""Eight users build at once what one of them has published: no step runs twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.build.cache.shared.shared import SharedCache
from lumicontainer.build.cache.store import LAYER, prove

from ..faults.test_folders_of_others import STRANGER, given_away
from .conftest import events, lumicontainer, run
from .people import let_in, ordinary
from .reliability.chain import digest

USERS = 8
STEPS = {"base", "greet", "lumicontainer"}


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel where every user can run it."""
    folder = tmp_path_factory.mktemp("installed")
    let_in(folder)
    folder.chmod(0o777)
    with ordinary(folder) as user:  # Root's Python may be closed to other users.
        found = run([*user, "python3", "-m", "venv", "--without-pip", folder / "venv"])
    assert found.returncode == 0, found.stderr
    python = folder / "venv/bin/python"
    done = run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel])
    assert done.returncode == 0, done.stderr
    return folder / "venv/bin/lumicontainer"


@dataclass
class Team:
    """Users who share a cache, and the folder in which each works."""

    program: Path
    recipes: Path
    folder: Path
    users: list[list[object]]

    @property
    def shared(self) -> Path:
        return self.folder / "team"

    def start(self, number: int, *words: object) -> subprocess.Popen[str]:
        """Start the program as a user with a cache of its own."""
        names = {"LUMICONTAINER_CACHE": self.folder / f"cache-{number}"}
        names["LUMICONTAINER_SHARED_CACHE"] = self.shared
        settings = [f"{name}={value}" for name, value in names.items()]
        command = [*self.users[number], "env", *settings, self.program, *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([str(word) for word in command], text=True, **pipes)

    def build(self, number: int, *words: object) -> subprocess.Popen[str]:
        image = ("--output", self.folder / f"{number}.sif", "--no-verify", "--progress", "json")
        return self.start(number, "build", "small", "--recipes", self.recipes, *image, *words)


@pytest.fixture
def team(
    small: Path, recipes: Path, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Team]:
    """Publish the image ``small`` for eight users."""
    del small
    for folder in (tmp_path, recipes):
        let_in(folder)
    tmp_path.chmod(0o1777)
    with ExitStack() as stack:
        users = [stack.enter_context(ordinary(tmp_path, number)) for number in range(USERS)]
        found = Team(program, recipes, tmp_path, users)
        found.shared.mkdir()
        found.shared.chmod(0o1777)
        monkeypatch.setenv("LUMICONTAINER_SHARED_CACHE", str(found.shared))
        done = lumicontainer("cache", "publish", "small", "--recipes", recipes)
        assert done.stdout == f"3 published: {found.shared}\n", done.stderr
        yield found


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stderr
    return stdout, stderr


def made(stderr: str) -> set[str]:
    """Return the steps that ran."""
    return {event["step"] for event in events(stderr, "end")} & STEPS


def test_eight_users_take_each_layer_and_publish_at_once(team: Team) -> None:
    builds = [team.build(number) for number in range(USERS)]
    for build in builds:
        _, stderr = finished(build)
        assert made(stderr) == set()
        assert "taken from the shared cache: " in stderr
    assert len({digest(team.folder / f"{number}.sif") for number in range(USERS)}) == 1

    # Two users build a change, and publish it from four processes each.
    changed = ("--set", "greet.greeting=eight")
    for number in range(2):
        assert made(finished(team.build(number, *changed))[1]) == {"greet", "lumicontainer"}
    before = set(team.shared.iterdir())
    publishes = [team.start(n % 2, "cache", "publish", "--all", "--json") for n in range(USERS)]
    counts = [len(json.loads(finished(each)[0])["published"]) for each in publishes]
    new = set(team.shared.iterdir()) - before
    assert sum(counts) == len(new) > 0
    for folder in team.shared.iterdir():
        prove(folder)


def test_a_layer_that_is_damaged_or_not_trusted_is_reported_and_built(team: Team) -> None:
    cache = SharedCache(team.shared, frozenset({os.geteuid()}))
    layer = next(each.layer for each in cache.entries() if each.step == "lumicontainer")
    layer.write_bytes(layer.read_bytes()[:-1] + b"x")
    damaged = f"{LAYER} has changed: its sha256 differs; its publisher is "
    for number, why in enumerate((damaged, f"its owner {STRANGER} is not trusted")):
        _, stderr = finished(team.build(number))
        assert made(stderr) == {"lumicontainer"}
        said = "\n".join(event["text"] for event in events(stderr, "say"))
        assert f"where: {layer.parent}\n    why: {why}" in said
        given_away(layer)
