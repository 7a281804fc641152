"""Start PyTorch's real store of rank 0 with as many clients as ranks, with and without the limit.

Runs in the image. Usage: python3 store.py CLIENTS SECONDS
Prints JSON: for the usual soft limit of open files (1,024), and for the hard one, as lumi-entry
sets it, the seconds until all have met, or null if they had not after SECONDS. All are on this
machine: the real network, and the start of as many interpreters, are not in it.
"""

import json
import os
import resource
import socket
import sys
import time
from datetime import timedelta

from torch.distributed import TCPStore

PROCESSES = 8
USUAL = 1024
HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port, clients, world, limit):
    """Be the clients of many ranks, one after the other, and stay until all have met."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (HARD, HARD))
    stores = []
    for _ in range(clients):
        # The ranks of one process cannot wait for each other.
        stores.append(TCPStore("127.0.0.1", port, world, False, limit, wait_for_workers=False))
        stores[-1].add("came", 1)
    stores[0].wait(["met"], limit)
    os._exit(0)


def seconds_to_meet(world, seconds, soft):
    """Return the seconds until the store has all clients; None if it is not so in time."""
    port, limit, pids = free_port(), timedelta(seconds=seconds), []
    for number in range(PROCESSES):
        share = (world - 1 + number) // PROCESSES
        if not (pid := os.fork()):
            try:
                connect(port, share, world, limit)
            finally:
                os._exit(1)
        pids.append(pid)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, HARD))
    begun = time.monotonic()
    try:
        store = TCPStore("127.0.0.1", port, world, True, limit, wait_for_workers=False)
        while store.add("came", 0) < world - 1 and time.monotonic() - begun < seconds:
            time.sleep(0.01)
        took = time.monotonic() - begun if store.add("came", 0) == world - 1 else None
        store.set("met", "1")
    except RuntimeError as error:
        took = None
        sys.stderr.write(f"{str(error).splitlines()[0][:200]}\n")
    for pid in pids:
        if took is None:
            os.kill(pid, 9)
        os.waitpid(pid, 0)
    return took


def main():
    clients, seconds = map(int, sys.argv[1:])
    seen = {"clients": clients, "hard": HARD}
    for name, soft in (("raised", HARD), ("usual", USUAL)):
        # A store that cannot open more files may never answer, so each has its own process.
        read, write = os.pipe()
        if not (pid := os.fork()):
            os.write(write, json.dumps(seconds_to_meet(clients, seconds, soft)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            seen[name] = json.loads(stream.read() or b"null")
        os.waitpid(pid, 0)
    json.dump(seen, sys.stdout)


main()
