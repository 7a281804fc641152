"""Around the run in a real container: signals reach the program, and the node is left clean."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ..unit.inside import seen
from ..unit.inside.conftest import lay_out
from .conftest import ENGINE

TABLE = [{"name": "TRITON_CACHE_DIR", "folder": "triton", "storage": "node", "reason": "quota"}]
COUNT = """
import signal
wanted = {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
got = [signal.sigtimedwait(wanted, 20)]
while got[-1]:
    got.append(signal.sigtimedwait(wanted, 0.5))
print(*(signal.Signals(one.si_signo).name for one in got if one))
raise SystemExit(5)
"""
SECONDS = 60

Rank = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    folder = tmp_path / "node"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def rank(image: Path, tmp_path: Path, node: Path) -> Rank:
    """Start a rank in a container of its own, on a platform that keeps caches on the node."""
    place = lay_out(tmp_path / "image", {"name": "lumi-g", "caches": TABLE})

    def start(number: int, *words: str) -> subprocess.Popen[str]:
        entering = [ENGINE, "-s", "exec", "--userns", "--bind", str(tmp_path), str(image)]
        return subprocess.Popen(
            [*entering, str(place), *words],
            env={**os.environ, **seen.srun(number), "TMPDIR": str(node)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_to_the_task_reaches_the_program_once_and_its_exit_code_passes(
    rank: Rank, name: str
) -> None:
    task = rank(0, "--remove-caches", "--", "python3", "-c", COUNT)
    assert task.stdout is not None
    assert task.stdout.readline() == "ready\n"
    task.send_signal(getattr(signal, name))
    assert task.stdout.read() == f"{name}\n"
    assert task.wait(SECONDS) == 5


def test_caches_go_with_the_last_rank_though_the_first_one_s_container_is_gone(
    rank: Rank, node: Path
) -> None:
    words = ("--remove-caches", "--", "sh", "-c")
    first = rank(0, *words, "echo here; read -r _")
    second = rank(1, *words, 'mkdir "$TRITON_CACHE_DIR/x"; echo here; read -r _')
    for task in (first, second):
        assert task.stdout is not None
        assert task.stdout.readline() == "here\n"
    first.communicate("\n", timeout=SECONDS)
    assert first.returncode == 0
    assert [path.name for path in node.iterdir()] == [f"lumi-{os.geteuid()}-1.0-once"]
    second.communicate("\n", timeout=SECONDS)
    end = time.monotonic() + SECONDS
    while list(node.iterdir()) and time.monotonic() < end:
        time.sleep(0.01)
    assert list(node.iterdir()) == []
