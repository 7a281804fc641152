"""A rank that waits for others at its start ends by SIGINT, and a program that trains does not."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.image import extensible, interrupt

PATIENCE = 60
C10D = "/image/torch/distributed/distributed_c10d.py"


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, int], bool]:
    """Return what says whether a signal ends a process whose main thread is in a function."""
    ended: list[bool] = []
    monkeypatch.setattr(interrupt, "_end", lambda: ended.append(True))
    monkeypatch.setattr(interrupt, "_PATIENCE", 0)
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.default_int_handler)

    def ask(file: str, name: str, number: int) -> bool:
        reading, writing = os.pipe()
        os.write(writing, bytes([number]))
        os.close(writing)
        names: dict[str, Any] = {}
        exec(compile(f"def {name}(wait): wait()", file, "exec"), names)
        names[name](lambda: interrupt._read_signals(reading))
        os.close(reading)
        return bool(ended)

    return ask


@pytest.mark.parametrize(
    ("file", "name", "number", "answer"),
    [
        (C10D, "init_process_group", signal.SIGINT, True),
        (C10D, "init_process_group", signal.SIGUSR1, False),
        (C10D, "all_reduce", signal.SIGINT, False),
        ("/home/me/train.py", "init_process_group", signal.SIGINT, False),
    ],
)
def test_a_signal_ends_a_rank_in_its_start_alone(
    ends: Callable[[str, str, int], bool], file: str, name: str, number: int, answer: bool
) -> None:
    assert ends(file, name, number) == answer


def test_a_program_that_answers_the_signal_itself_goes_on(
    ends: Callable[[str, str, int], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: print)
    assert not ends(C10D, "init_process_group", signal.SIGINT)


WAITS = """\
import ctypes, os, signal, sys, threading

def init_process_group():
    mutex, lock = ctypes.create_string_buffer(256), ctypes.CDLL(None).pthread_mutex_lock
    lock(mutex)
    is_set = threading.Event()
    threading.Thread(target=interrupt, args=(is_set,), daemon=True).start()
    # Until the next call of compiled code, no other thread runs.
    sys.setswitchinterval(3600)
    is_set.set()
    lock(mutex)

def interrupt(is_set):
    is_set.wait()
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.slow
def test_a_wait_in_compiled_code_ends(tmp_path: Path) -> None:
    folder = tmp_path / "torch/distributed"
    folder.mkdir(parents=True)
    (folder / "distributed_c10d.py").write_text(WAITS)
    program = f"""\
import os
os.environ[{interrupt.PROCESS!r}] = str(os.getpid())
{extensible.line_of_ranks()}
import torch.distributed.distributed_c10d
torch.distributed.distributed_c10d.init_process_group()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, timeout=PATIENCE, check=False)
    assert done.returncode == 128 + signal.SIGINT
