"""``lumicontainer debug``: the states that failed builds left."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.build.failures.failure import OPENER
from lumicontainer.build.workspace import FAILED, LOCK
from lumicontainer.system import flock
from lumicontainer.system.files.temporary import temporary_root

from .conftest import Run

Fail = Callable[..., Path]


@pytest.fixture
def fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Leave what a failed build leaves, with a shell that says who it is."""
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path))

    def left(
        recipe: str, step: str = "greet", *, age: float = 0, needs: str = "", of: str = ""
    ) -> Path:
        folder = temporary_root() / f"{recipe}{of}-a{step}"
        folder.mkdir()
        record = {"recipe": recipe, "step": step, "time": time.time() - age, "log": "/log"}
        (folder / FAILED).write_text(json.dumps(record))
        opener = folder / OPENER
        opener.write_text(f"#!/bin/sh\nexec echo {recipe} {step} {needs}\n")
        opener.chmod(0o700)
        return folder

    return left


def test_the_shell_of_the_newest_state_is_opened(lumicontainer: Run, fail: Fail) -> None:
    fail("one", age=100)
    fail("two", age=50)
    fail("one-more", age=200)
    assert lumicontainer("debug").stdout == "two greet\n"
    assert lumicontainer("debug", "one").stdout == "one greet\n"
    (fail("newest") / OPENER).write_text("#!/bin/sh\nexit 42\n")
    assert lumicontainer("debug").returncode == 42


def test_without_a_state_it_is_said_how_one_comes_about(lumicontainer: Run, fail: Fail) -> None:
    fail("one")
    done = lumicontainer("debug", "other")
    assert done.returncode == 2
    assert "no state of a failed build is kept for 'other'" in done.stderr
    assert "lumicontainer build other" in done.stderr


def test_a_layer_that_was_pruned_meanwhile_is_named(lumicontainer: Run, fail: Fail) -> None:
    fail("one", needs="--overlay /nowhere/layer.squashfs:ro")
    done = lumicontainer("debug")
    assert done.returncode == 3
    assert "/nowhere/layer.squashfs\n" in done.stderr
    assert "lumicontainer build one" in done.stderr


def test_while_the_shell_is_open_no_other_takes_the_state(lumicontainer: Run, fail: Fail) -> None:
    lock = fail("one") / "lock"
    script = f"#!/bin/sh\nflock --nonblock {lock} true && echo free || echo held\n"
    (lock.parent / OPENER).write_text(script)
    assert lumicontainer("debug").stdout == "held\n"
    held = flock.exclusive(lock)
    assert held is not None
    done = lumicontainer("debug")
    os.close(held)
    assert done.returncode == 3
    assert f"process {os.getpid()}" in done.stderr


def test_list_prints_recipe_step_age_size_and_path(lumicontainer: Run, fail: Fail) -> None:
    done = lumicontainer("debug", "--list")
    assert (done.returncode, done.stdout) == (0, "no state of a failed build is kept\n")
    assert json.loads(lumicontainer("debug", "--list", "--json").stdout) == []
    folder = fail("one", "greet: compile", age=7300)
    (folder / "big").write_bytes(b"x" * 2_000_000)
    line = lumicontainer("debug", "--list").stdout
    for word in ("one", "greet: compile", "2 h ago", "1.9 MiB", str(folder)):
        assert word in line
    (record,) = json.loads(lumicontainer("debug", "--list", "--json").stdout)
    assert (record["recipe"], record["path"]) == ("one", str(folder))


def test_clean_removes_what_a_lock_of_the_recipe_left(lumicontainer: Run, fail: Fail) -> None:
    state, other = fail("one", "apt", of=LOCK), fail("one.more", "apt", of=LOCK)
    assert lumicontainer("debug", "one").stdout == "one apt\n"
    assert lumicontainer("debug", "--clean", "one").stdout == f"removed: {state}\n"
    assert other.exists()


def test_clean_removes_the_states_that_nobody_uses(lumicontainer: Run, fail: Fail) -> None:
    used, idle, other = fail("one", "used"), fail("one", "idle"), fail("other")
    held = flock.exclusive(used / "lock")
    assert held is not None
    done = lumicontainer("debug", "--clean", "one")
    os.close(held)
    assert done.returncode == 0
    assert f"in use, not removed: {used}\n" in done.stdout
    assert f"removed: {idle}\n" in done.stdout
    assert sorted(temporary_root().glob("[!.]*")) == sorted([used, other])
    lumicontainer("debug", "--clean")
    assert list(temporary_root().glob("[!.]*")) == []
