"""Run the command line as a user does."""

import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

import pytest

from lumicontainer.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]


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
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lumicontainer", *map(str, words)]
        if env is None:
            return _forked(command, cwd)
        return subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def _forked(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        child = os.fork()
        if not child:
            _run(command[3:], cwd, stdout, stderr)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for stream in (stdout, stderr):
            stream.seek(0)
        return subprocess.CompletedProcess(command, code, stdout.read(), stderr.read())


def _run(words: list[str], cwd: Path, stdout: IO[str], stderr: IO[str]) -> NoReturn:
    code: object = 1
    try:
        os.chdir(cwd)
        for number, stream in enumerate((stdout, stderr), 1):
            os.dup2(stream.fileno(), number)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        code = main(words)
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - the fork must never return to pytest
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
