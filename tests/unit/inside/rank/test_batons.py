"""A lock file of PyTorch's goes with the process that made it: real processes."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .. import seen
from ..conftest import PATH, lay_out

pytestmark = pytest.mark.slow

TABLE = [{"name": "TORCH_EXTENSIONS_DIR", "folder": "torch-extensions", "storage": "node"}]
# As PyTorch does it (FileBaton), but to find the file ends the program in place of waiting.
COMPILE = 'cd "$TORCH_EXTENSIONS_DIR" && mkdir -p ops && set -C && echo >ops/lock || exit 7; '
WAIT = COMPILE + "echo compiling; read -r _"
FOUND, NONE = 7, 0

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a rank of one step whose program is a line of shell; at the end, end them all."""
    place = lay_out(tmp_path / "image", {"name": "lumi-g", "caches": TABLE})
    node = tmp_path / "node"
    node.mkdir(mode=0o700)
    started = []

    def start_one(text: str, number: int = 0) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [place, "--", "bash", "-c", text],
            env={"PATH": PATH, "TMPDIR": str(node), **seen.srun(number)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.communicate()


def compiling(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "compiling\n"


def test_a_run_is_not_stopped_by_one_that_was_killed_in_the_same_step(start: Start) -> None:
    killed = start(WAIT)
    assert compiling(killed)
    killed.kill()
    killed.wait()
    assert start(COMPILE).wait() == NONE


@pytest.mark.parametrize(
    "first", ["", "for n in 3 4 5 6 7 8 9; do eval exec $n'>/dev/null'; done; "]
)
def test_the_lock_of_a_rank_that_lives_stays(start: Start, first: str) -> None:
    assert compiling(start(first + WAIT))
    assert start(COMPILE, 1).wait() == FOUND
    assert start(COMPILE, 2).wait() == FOUND
