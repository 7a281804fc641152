"""A start that waits for an absent node ends by a signal, whoever starts the ranks."""

import os
import random
import signal
import socket
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from lumicontainer.inside.launch.rendezvous import FIRST_PORT, PORTS

from ..unit.inside import seen
from .conftest import ENGINE
from .processes import PATIENCE, started, wait_for

PROGRAM = "import torch.distributed; torch.distributed.init_process_group('gloo')\n"
LISTENS = "0A"
"""The state of a socket in /proc/net/tcp (TCP_LISTEN in the kernel's net/tcp_states.h)."""


def free_port() -> int:
    """Return a free port above the ports of ranks, and below the kernel's ephemeral ports."""
    end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(FIRST_PORT + PORTS, end)
        with suppress(OSError), socket.create_server(("", port)):
            return port


def listens(port: int) -> bool:
    """Return whether a process of this machine waits for connections to a port."""
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTENS and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


@pytest.mark.parametrize(
    ("launcher", "number"),
    [
        *product(
            ("direct", "torchrun", "accelerate", "deepspeed"), (signal.SIGTERM, signal.SIGINT)
        ),
    ],
)
def test_a_signal_ends_the_first_of_two_nodes_that_waits_for_the_other(
    files: Path, tmp_path: Path, launcher: str, number: signal.Signals
) -> None:
    """All wait in C++, where no handler of Python runs; DeepSpeed's launcher ends with 1."""
    (tmp_path / "program.py").write_text(PROGRAM)
    port = free_port()
    step = seen.step(0, "nid[005001-005002]", 2, "1(x2)", 2)
    env = {**seen.SALLOC, **seen.task(0, 0, 0), **step, "MASTER_PORT": str(port)}
    env["MASTER_ADDR"] = os.uname().nodename
    words = ("--launcher", launcher, *(() if launcher == "direct" else ("--nproc", "2")))
    entry = ("lumi-entry", *words, tmp_path / "program.py")
    command = (ENGINE, "-s", "exec", "--userns", "--bind", tmp_path, files, *entry)
    with started(command, env=env) as running:
        wait_for(lambda: listens(port))
        running.send_signal(number)
        _, stderr = running.communicate(timeout=PATIENCE)
    codes = {"direct": (-number, 128 + number), "deepspeed": (1,)}
    assert running.returncode in codes.get(launcher, (128 + number,)), stderr[-3000:]
