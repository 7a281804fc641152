"""Train a few steps over Gloo with four ranks, one of which has the fault that FAULT names.

Each fault is a function, which the table ``FAULTS`` calls in one rank at one place. A line that
ends in the name of its fault is the one that ``postmortem`` has to name.
"""

import ctypes
import errno
import faulthandler
import importlib
import logging
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

FAULT, RANK = os.environ["FAULT"], int(os.environ["RANK"])
LONG, SHORT = 120, 6
"""Seconds that ranks wait before the step with the fault, and in it."""
STEPS, BAD_STEP = 4, 2
WAITING = (
    *("shape", "order", "skip", "slow", "stop", "loop", "recv", "fewer"),
    *("deadlock", "thread", "stops"),
)
"""Faults for which the other ranks wait in vain."""
STARTING = ("address", "name", "port", "absent", "detail", "same-rank")
"""Faults of the start."""
kept = []


def dump():
    """Write what the flight recorder knows, as RCCL's process group does after a time-out."""
    data = torch._C._distributed_c10d._dump_fr_trace()
    Path(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{RANK}").write_bytes(data)


def limit_memory():
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), -1))


def other_address():
    os.environ["MASTER_ADDR"] = "192.0.2.1"


def other_name():
    os.environ["MASTER_ADDR"] = "nid009999.invalid"


def taken_port():
    kept.append(socket.create_server(("0.0.0.0", 0)))
    os.environ["MASTER_PORT"] = str(kept[0].getsockname()[1])


def details():
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"


def exception():
    raise ValueError("expected 8 columns, got 7")  # exception


def missing_file():
    Path("/tmp/data-of-this-node/shard-003.tar").read_bytes()  # file


def missing_module():
    importlib.import_module("flash_attn_of_this_node")  # import


def many_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
    kept.extend(os.fdopen(os.open("/dev/null", os.O_RDONLY)) for _ in range(99))  # files


def python_memory():
    limit_memory()
    kept.append(bytearray(8 << 30))  # memory


def tensor_memory():
    limit_memory()
    torch.empty(1 << 31, 4)  # allocator


def no_gpu():
    torch.ones(4, device="cuda")  # cuda


def wrong_columns():
    torch.nn.Linear(8, 4)(torch.ones(16, 9))  # shapes


def not_a_number():
    loss = torch.tensor(float("nan"))
    assert torch.isfinite(loss), f"loss is {loss.item()} in a step"  # nan


def other_shape():
    dist.all_reduce(torch.ones(6))  # shape


def other_order():
    dist.all_gather([torch.empty(4) for _ in range(4)], torch.ones(4))  # order


def late():
    time.sleep(SHORT * 2.5)


def endless():
    while time.monotonic():
        time.sleep(0.1)


def signalled(number):
    return lambda: os.kill(os.getpid(), number)


def crash():
    faulthandler.enable()
    ctypes.string_at(0)  # segfault


def additional():
    dist.all_reduce(torch.ones(7))  # detail


def full_disk():
    with Path("/dev/full").open("wb", buffering=0) as stream:
        torch.save(torch.ones(8), stream)  # space


def image_file():
    Path("/usr/lib/checkpoint.pt").write_bytes(b"")  # readonly


def large_file():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, -1))
    with Path("large").open("wb", buffering=0) as stream:
        try:
            stream.write(bytes(512))
            stream.write(bytes(512))  # limit
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))


def half_checkpoint():
    path = Path("checkpoint.pt")
    torch.save(torch.ones(8), path)
    os.truncate(path, path.stat().st_size // 2)
    torch.load(path)  # half


def receive():
    dist.recv(torch.empty(3), src=1)  # recv


def caught():
    try:
        raise OSError(28, "No space left on device")
    except OSError:
        logging.exception("the cache is off")


def words():
    print("error: 0, killed workers: 0, Segmentation fault handler installed", file=sys.stderr)
    print("loss is nan in 0 of 6 steps; CUDA out of memory was not seen")


def warned():
    warnings.warn("Connection refused by the tracking server; it is not used", stacklevel=1)


def smaller_batch():
    try:
        torch.empty(1 << 46)
    except RuntimeError as error:
        print(f"a smaller batch: {error}", file=sys.stderr)


def many_lines():
    for number in range(20_000):
        print(f"step {number}: loss 0.1", file=sys.stderr)


def retried():
    for number in range(3):
        print(f"urllib3: Retry {number}: Connection reset by peer", file=sys.stderr)


def asked_to_save():
    signal.signal(signal.SIGTERM, lambda *_: print("a checkpoint is written"))
    os.kill(os.getpid(), signal.SIGTERM)


def other_version():
    from math import fused_adam_of_this_node  # noqa: F401, PLC0415 # version


def other_model():
    weights = {"weight": torch.ones(4, 9), "bias": torch.ones(4)}
    torch.nn.Linear(8, 4).load_state_dict(weights)  # weights


def device_assert():
    print("Indexing.cu:1515: Assertion `srcIndex < srcSelectDimSize` failed.", file=sys.stderr)
    text = "HIP error: device-side assert triggered\nDevice-side assertions were explicitly omitted"
    raise RuntimeError(text)  # device


class Killed(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGKILL)


class Wrong(Killed):
    def __getitem__(self, index):
        return {"text": index}["image"]  # item


def worker():
    list(torch.utils.data.DataLoader(Killed(), num_workers=1))  # worker


def wrong_item():
    list(torch.utils.data.DataLoader(Wrong(), num_workers=1))


def many_threads():
    limit_memory()
    for _ in range(9999):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # threads


def stale():
    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), "/scratch/data/shard-1.tar")  # stale


def locked_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def failing_thread():
    def load():
        raise KeyError("image")  # thread

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    threading.Event().wait()


def locked_database():
    place = Path("database")
    first, second = (sqlite3.connect(place, timeout=0, isolation_level=None) for _ in range(2))
    first.execute("begin exclusive")
    second.execute("create table t (x)")  # database


def failing_program():
    subprocess.run(["/bin/false"], check=True)  # program


def same_rank():
    os.environ["RANK"] = "1"


ALL = (0, 1, 2, 3)
FAULTS = {
    "version": ("load", (2, 3), other_version),
    "weights": ("load", (2, 3), other_model),
    "device": ("load", 1, device_assert),
    "worker": ("load", 2, worker),
    "item": ("load", 0, wrong_item),
    "threads": ("load", 1, many_threads),
    "stale": ("load", 3, stale),
    "deadlock": ("load", 2, locked_twice),
    "thread": ("load", 1, failing_thread),
    "database": ("load", 2, locked_database),
    "program": ("load", 1, failing_program),
    "early": ("load", 1, lambda: sys.exit(0)),
    "store": ("load", 0, lambda: os._exit(0)),
    "stops": ("load", (2, 3), signalled(signal.SIGSTOP)),
    "same-rank": ("start", 3, same_rank),
    "address": ("start", 3, other_address),
    "name": ("start", 1, other_name),
    "port": ("start", 0, taken_port),
    "detail": ("start", ALL, details),
    "exception": ("load", 2, exception),
    "file": ("load", 3, missing_file),
    "import": ("load", 1, missing_module),
    "files": ("load", 2, many_files),
    "memory": ("load", 3, python_memory),
    "allocator": ("load", 0, tensor_memory),
    "cuda": ("load", 1, no_gpu),
    "shapes": ("load", 1, wrong_columns),
    "nan": ("load", 2, not_a_number),
    "recv": ("load", 0, receive),
    "slow": ("load", 3, late),
    "loop": ("load", 1, endless),
    "kill": ("load", 2, signalled(signal.SIGKILL)),
    "term": ("load", 0, signalled(signal.SIGTERM)),
    "stop": ("load", 1, signalled(signal.SIGSTOP)),
    "exit": ("load", 1, lambda: os._exit(3)),
    "abort": ("load", 0, os.abort),
    "segfault": ("load", 3, crash),
    "shape": ("reduce", 1, other_shape),
    "order": ("reduce", 3, other_order),
    "skip": ("reduce", 2, lambda: None),
    "space": ("save", 1, full_disk),
    "readonly": ("save", 2, image_file),
    "limit": ("save", 3, large_file),
    "half": ("save", 2, half_checkpoint),
    "well-caught": ("load", ALL, caught),
    "well-words": ("load", ALL, words),
    "well-warned": ("load", ALL, warned),
    "well-memory": ("load", 1, smaller_batch),
    "well-slow": ("load", 1, lambda: time.sleep(1)),
    "well-many": ("load", ALL, many_lines),
    "well-retried": ("load", 2, retried),
    "well-save": ("load", 0, asked_to_save),
}


def happens(place):
    """Do what the fault is; return whether it takes the place of what the program does there."""
    where, rank, act = FAULTS.get(FAULT, ("", ALL, None))
    if where != place or RANK not in (rank if isinstance(rank, tuple) else (rank,)):
        return False
    act()
    return True


def shorten_patience():
    dist.barrier()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=SHORT), dist.group.WORLD)


def train(model, step):
    if step == BAD_STEP:
        if FAULT in WAITING:
            shorten_patience()
        happens("load")
    loss = model(torch.full((16, 8), float(step + RANK))).square().mean()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    if FAULT == "detail" and RANK == 1 and step == BAD_STEP:
        additional()
    if step != BAD_STEP or not happens("reduce"):
        dist.all_reduce(torch.ones(4))
    print(f"step {step}")


def meet():
    """Call what only some ranks call, or all with a separate limit."""
    if FAULT == "barrier":
        dist.barrier()
        if RANK == 2:
            time.sleep(SHORT * 2)
        dist.monitored_barrier(timeout=timedelta(seconds=SHORT))
    if FAULT == "well-group":
        group = dist.new_group([0, 1])
        if RANK < 2:
            dist.all_reduce(torch.ones(2), group=group)


def main():
    happens("start")
    patience = timedelta(seconds=10 if FAULT in STARTING else LONG)
    dist.init_process_group("gloo", timeout=patience)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4)
    meet()
    for step in range(STEPS - (FAULT == "fewer" and RANK == 1)):
        train(model, step)
    happens("save")
    if FAULT != "well-left":
        dist.barrier()
        dist.destroy_process_group()


try:
    main()
except Exception:
    if dist.is_initialized():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
        dump()
    raise
