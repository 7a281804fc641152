"""A helper ends with the program that started it, even when that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.system import process

pytestmark = pytest.mark.slow

_STARTS = """\
import sys
from lumicontainer.system import process
program = 'exec 3>"$1" && read -r line && echo "$line" >&3 && sleep 1000'
process.in_new_session(["bash", "-c", program, "-", sys.argv[1]], stdin=b"begun\\n")
"""


def test_a_helper_gets_its_input() -> None:
    assert process.in_new_session(["cat"], stdin=b"some text").stdout == "some text"


def require_end_of_helpers(program: str, pipe: Path) -> None:
    """Kill a program; its pipe ends when the last process that may write into it has ended."""
    os.mkfifo(pipe)
    command = [sys.executable, "-c", program, str(pipe)]
    with subprocess.Popen(command) as caller, pipe.open() as lines:
        assert lines.readline() == "begun\n"
        caller.send_signal(signal.SIGKILL)
        assert lines.read() == ""


def test_a_helper_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    require_end_of_helpers(_STARTS, tmp_path / "pipe")


_STOPPED = """\
import sys
from lumicontainer.system import process
process.GRACE = 1
program = 'exec 3>"$1"; echo begun >&3; kill -STOP "$$"'
process.in_new_session(["bash", "-c", program, "-", sys.argv[1]])
"""


def test_a_helper_that_is_stopped_ends_with_its_caller_too(tmp_path: Path) -> None:
    """A stopped program gets no other signal than SIGKILL."""
    require_end_of_helpers(_STOPPED, tmp_path / "pipe")
