"""A rank ends with the launcher that started it, however that one dies."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from ..conftest import PATH, lay_out, write_module

pytestmark = pytest.mark.slow

LAUNCHER = """
import os, subprocess, sys
words = sys.argv[sys.argv.index("--") + 1 :]
ranks = [
    subprocess.Popen({before} + words, env={{**os.environ, "LOCAL_RANK": str(local)}})
    for local in (0, 1)
]
[rank.wait() for rank in ranks]
"""
RANK = """
import os, signal
signal.signal(signal.SIGALRM, lambda *_: os.write(1, b"outlived it\\n") and os._exit(0))
signal.alarm(600)
os.write(1, b"%d\\n" % os.getpid())
signal.pause()
"""
BETWEEN = """["sh", "-c", '"$@"; exit', "sh"]"""


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("image"), {"name": "cpu"})


@contextmanager
def launched(
    entry: Path, folder: Path, *words: object, before: str = "[]"
) -> Iterator[tuple[list[int], IO[str]]]:
    """Start two ranks, and kill what started them; yield the ranks and what they print later."""
    write_module(folder, "torch/distributed/run.py", LAUNCHER.format(before=before))
    (folder / "rank.py").write_text(RANK)
    command = [entry, "--launcher", "torchrun", "--nproc", "2", *words, folder / "rank.py"]
    env = {"PATH": PATH, "PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        ranks = [int(program.stdout.readline()) for _ in range(2)]
        os.kill(program.pid, signal.SIGKILL)
        yield ranks, program.stdout


@pytest.mark.parametrize("options", [(), ("--remove-caches",)], ids=["plain", "caches"])
def test_ranks_end_when_their_launcher_is_killed(
    entry: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with launched(entry, tmp_path, *options) as (_, printed):
        # The ranks hold the pipe.
        assert printed.read() == ""


def test_a_program_between_launcher_and_rank_decides_when_the_rank_ends(
    entry: Path, tmp_path: Path
) -> None:
    with launched(entry, tmp_path, before=BETWEEN) as (ranks, printed):
        for rank in ranks:
            os.kill(rank, signal.SIGALRM)
        assert printed.read() == "outlived it\n" * 2
