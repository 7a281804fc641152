"""``lumicontainer debug``: the states that failed builds left."""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.api.failed_builds import FailedBuild
from lumicontainer.sandbox.failures.failure import OPENER
from lumicontainer.sandbox.workspace import FAILED, LOCK
from lumicontainer.system import flock
from lumicontainer.system.files.temporary import temporary_root

from .conftest import Ask, Run, refused

Fail = Callable[..., Path]


@pytest.fixture
def fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Leave what a failed build leaves, with a shell that says who it is."""
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path))

    def left(
        recipe: str, step: str = "greet", *, age: float = 0, opens: str = "", of: str = ""
    ) -> Path:
        folder = temporary_root() / f"{recipe}{of}-a{step}"
        folder.mkdir()
        record = {"recipe": recipe, "step": step, "time": time.time() - age, "log": "/log"}
        (folder / FAILED).write_text(json.dumps(record))
        opener = folder / OPENER
        opener.write_text(f"#!/bin/sh\n{opens or f'exec echo {recipe} {step}'}\n")
        opener.chmod(0o700)
        return folder

    return left


def test_the_shell_of_the_newest_state_is_opened(lumicontainer: Run, fail: Fail) -> None:
    fail("one", age=100)
    fail("two", age=50)
    fail("one-more", age=200)
    assert lumicontainer("debug").stdout == "two greet\n"
    assert lumicontainer("debug", "one").stdout == "one greet\n"
    fail("newest", opens="exit 42")
    assert lumicontainer("debug").returncode == 42


def test_without_a_state_it_is_said_how_one_comes_about(lumicontainer: Run, fail: Fail) -> None:
    fail("one")
    says = ("no state of a failed build is kept for 'other'", "lumicontainer build other")
    refused(lumicontainer("debug", "other"), *says)


def test_a_layer_that_was_pruned_meanwhile_is_named(lumicontainer: Run, fail: Fail) -> None:
    fail("one", opens="exec echo --overlay /nowhere/layer.squashfs:ro")
    says = ("/nowhere/layer.squashfs\n", "lumicontainer build one")
    refused(lumicontainer("debug"), *says, code=3)


def test_while_the_shell_is_open_no_other_takes_the_state(lumicontainer: Run, fail: Fail) -> None:
    lock = fail("one", opens='flock --nonblock "${0%/*}/lock" true || echo held') / "lock"
    assert lumicontainer("debug").stdout == "held\n"
    held = flock.exclusive(lock)
    assert held is not None
    done = lumicontainer("debug")
    os.close(held)
    refused(done, f"process {os.getpid()}", code=3)


def test_list_prints_recipe_step_age_size_path(lumicontainer: Run, ask: Ask, fail: Fail) -> None:
    done = lumicontainer("debug", "--list")
    assert (done.returncode, done.stdout) == (0, "no state of a failed build is kept\n")
    assert ask("debug", "--list") == []
    folder = fail("one", "greet: compile", age=7300)
    (folder / "big").write_bytes(b"x" * 2_000_000)
    line = lumicontainer("debug", "--list").stdout
    for word in ("one", "greet: compile", "2 h ago", "1.9 MiB", str(folder)):
        assert word in line
    (record,) = ask("debug", "--list")
    assert (record["recipe"], record["path"]) == ("one", str(folder))


def test_a_state_that_a_build_renames_meanwhile_has_no_size(fail: Fail) -> None:
    state = FailedBuild(fail("one"), "one", "greet", 0, "/log")

    def rename(event: str, _: object) -> None:
        if event == "os.scandir" and state.folder.exists():
            state.folder.rename(state.folder.with_name(".renamed"))

    def ask() -> None:
        sys.addaudithook(rename)  # No process can remove it.
        assert state.size() == 0

    process = multiprocessing.get_context("fork").Process(target=ask)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert not state.folder.exists()


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
