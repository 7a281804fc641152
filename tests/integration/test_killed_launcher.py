"""Ranks of the real launchers end when their launcher is killed, and free their GPUs."""

import os
import signal
import sys
from pathlib import Path

import pytest

from .processes import started

RANK = r"""
import os, signal
signal.signal(signal.SIGALRM, lambda *_: os.write(1, b"outlived it\n") and os._exit(0))
signal.alarm(600)
os.write(1, b"rank of %d\n" % os.getppid())
signal.pause()
"""


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "deepspeed"])
def test_kill_9_of_a_launcher_ends_its_ranks(image: Path, tmp_path: Path, launcher: str) -> None:
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    entry = ("lumi-entry", "--launcher", launcher, "--nproc", 2, program)
    command = (sys.executable, "-m", "lumicontainer", "run", image, "--", *entry)
    with started(command, cwd=tmp_path) as process:
        assert process.stdout is not None
        lines = (line for line in process.stdout if line.startswith("rank of "))
        launchers = {next(lines), next(lines)}
        (number,) = (int(line.split()[-1]) for line in launchers)
        os.kill(number, signal.SIGKILL)
        # The ranks hold the pipe.
        assert "outlived it" not in process.stdout.read()
