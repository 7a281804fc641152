"""Run the command line as a user does."""

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO, Any

import pytest

from lumicontainer.cli import main

from ..conftest import HELLO, Write
from ..programs import run as started

Run = Callable[..., CompletedProcess[str]]
Ask = Callable[..., Any]
Hello = Callable[..., tuple[object, ...]]


def succeeded(done: CompletedProcess[str]) -> CompletedProcess[str]:
    """Return a command that must have ended well."""
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def refused(done: CompletedProcess[str], *says: str, code: int = 2) -> None:
    """Assert that a command ended with an error that says all of this, and printed no result."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert [text for text in ("error: ", *says) if text not in done.stderr] == [], done.stderr


@pytest.fixture
def lumicontainer(tmp_path: Path) -> Run:
    """Run ``lumicontainer`` with given words, by default in an empty folder.

    A fork of this process has all imports already. Variables of a test's own reach a new process,
    because Python reads some of them only when it starts.
    """
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(
        *words: object, cwd: Path = empty, env: dict[str, str] | None = None
    ) -> CompletedProcess[str]:
        if env is None:
            return _forked([str(word) for word in words], cwd)
        return started([sys.executable, "-m", "lumicontainer", *words], cwd=cwd, env=env)

    return run


def _forked(words: list[str], cwd: Path) -> CompletedProcess[str]:
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        child = multiprocessing.get_context("fork").Process(
            target=_run, args=(words, cwd, stdout, stderr)
        )
        child.start()
        child.join()
        for stream in (stdout, stderr):
            stream.seek(0)
        return CompletedProcess(words, child.exitcode or 0, stdout.read(), stderr.read())


def _run(words: list[str], cwd: Path, stdout: IO[str], stderr: IO[str]) -> None:
    os.chdir(cwd)
    for number, stream in enumerate((stdout, stderr), 1):
        os.dup2(stream.fileno(), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    sys.exit(main(words))


@pytest.fixture
def ask(lumicontainer: Run) -> Ask:
    """Return what a command that must succeed without talk prints as JSON."""

    def answer(*words: object, **place: Any) -> Any:
        done = lumicontainer(*words, "--json", **place)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    return answer


@pytest.fixture
def hello(write: Write) -> Hello:
    """Write the recipe ``hello`` with changes; return the words that name it."""

    def words_of(changes: dict[str, str] | None = None) -> tuple[object, ...]:
        return ("hello", "--recipes", write({**HELLO, **(changes or {})}))

    return words_of
