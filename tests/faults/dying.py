"""Run jobs of four ranks that train over Gloo, each with a fault or with none.

Runs in the image. Usage: python3 dying.py PROGRAM FOLDER FAULT...
Each job has its folder, with files named as by ``lumi-entry --log-dir``. PyTorch is imported
once, and each rank is a child of this process. Prints the exit codes of all ranks as JSON.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import torch
import torch._inductor  # it takes a second, and the first dump of a rank imports it
import torch.distributed

torch.set_num_threads(1)

RANKS = 4
AT_ONCE = 8
LONGEST = 120
"""Seconds after which a job is killed that does not end by itself."""
ENDLESS = {"stop": 1, "loop": 1, "deadlock": 1, "thread": 1, "stops": 2}
"""Faults with ranks that do not end when all others have, and how many they are."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def redirect(folder, rank):
    for descriptor, kind in ((1, "out"), (2, "err")):
        path = folder / f"7.0-rank{rank}.{kind}"
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout = os.fdopen(os.dup(1), "w")
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)


def become_rank(program, folder, fault, rank, port):
    redirect(folder, rank)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(RANKS),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        FAULT=fault,
        TORCH_FR_BUFFER_SIZE="2000",
        TORCH_FR_DUMP_TEMP_FILE=str(folder / "7.0-flight-recorder-rank"),
        GLOO_SOCKET_IFNAME="lo",
    )
    os.chdir(folder)
    code = 0
    try:
        exec(compile(program.read_bytes(), str(program), "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException as error:  # noqa: BLE001 - as Python does at its end
        sys.excepthook(type(error), error, error.__traceback__.tb_next)
        code = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


def start(program, folder, fault):
    folder.mkdir(parents=True)
    port, ranks = free_port(), {}
    for rank in range(RANKS):
        if fault == "absent" and rank == 2:
            continue
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                become_rank(program, folder, fault, rank, port)
            os._exit(70)
        ranks[pid] = rank
    return {"ranks": ranks, "codes": {}, "end": time.monotonic() + LONGEST}


def reap(jobs):
    """Note each rank that has ended; kill the ranks of a job that would never end."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            for fault, job in jobs.items():
                if pid in job["ranks"]:
                    job["codes"][job["ranks"].pop(pid)] = os.waitstatus_to_exitcode(status)
                    if len(job["ranks"]) == ENDLESS.get(fault):
                        job["end"] = 0
    for job in jobs.values():
        if time.monotonic() > job["end"]:
            for pid in job["ranks"]:
                os.kill(pid, signal.SIGKILL)


def main():
    program, folder, *faults = sys.argv[1:]
    todo, running, ended = list(faults), {}, {}
    while todo or running:
        while todo and len(running) < AT_ONCE:
            fault = todo.pop(0)
            running[fault] = start(Path(program), Path(folder) / fault, fault)
        time.sleep(0.02)
        reap(running)
        for fault in [name for name, job in running.items() if not job["ranks"]]:
            ended[fault] = running.pop(fault)["codes"]
    json.dump(ended, sys.stdout)


main()
