"""Functions for checks that compute: their device, their ranks and their times.

PyTorch calls a GPU of any maker ``cuda``, so these checks run on all, and report the device.
LUMI_VERIFY_DEVICE=cpu selects the CPU and gloo, which tests use on machines without a GPU.
lumi-verify never sets it, and a check fails if it is set on a machine with an AMD GPU.
"""

import datetime
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from lumi_inside.checking import FAILED, failed, note, record, skipped

DEVICE = "LUMI_VERIFY_DEVICE"
_AMD = "/dev/kfd"
"""Exists if the kernel has AMD's driver, even if the container shows another /sys."""
MIB = 1 << 20
PATIENCE = datetime.timedelta(hours=1)
"""Longer than any check may take: lumi-verify ends one that hangs, and prints its stacks."""


def local_rank():
    """Return this rank's number on its node; 0 outside a rank."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def device(number=None):
    """Return the device to compute on: this rank's GPU, or that with a number of its own."""
    asked = os.environ.get(DEVICE, "")
    if asked == "cpu":
        if os.path.exists(_AMD):
            failed(f"{DEVICE}=cpu keeps it from the GPU that {_AMD} shows: unset it")
        note("ran_on", f"the CPU, for {DEVICE}=cpu")
        return torch.device("cpu")
    if asked:
        raise ValueError(f"{DEVICE}={asked}: it knows cpu, and is not set for a GPU")
    if torch.version.hip and not os.path.exists(_AMD):
        skipped("PyTorch is built for ROCm, and there is no AMD GPU")
    if not torch.cuda.is_available():
        failed("PyTorch sees no GPU, but the kernel's driver shows some")
    index = local_rank() % torch.cuda.device_count() if number is None else number
    torch.cuda.set_device(index)
    found = torch.cuda.get_device_properties(index)
    note("ran_on", f"{found.name} ({getattr(found, 'gcnArchName', '') or torch.version.cuda})")
    return torch.device("cuda", index)


def devices():
    """Return all devices of this node, or the CPU alone."""
    first = device(0)
    count = torch.cuda.device_count() if first.type == "cuda" else 1
    return [first, *(torch.device("cuda", number) for number in range(1, count))]


def wait(on):
    """Wait until a device has finished its work."""
    if on.type == "cuda":
        torch.cuda.synchronize(on)


def seconds(work, on, *, rounds, warm=1):
    """Return how long ``work`` takes on a device, as the mean of some rounds, seconds each."""
    for _ in range(warm):
        work()
    wait(on)
    begun = time.perf_counter()
    for _ in range(rounds):
        work()
    wait(on)
    return (time.perf_counter() - begun) / rounds


def apart(found, wanted):
    """Return how far two tensors are apart, as a part of the largest number of ``wanted``.

    The distance is infinite if a number is finite in only one of them.
    """
    one, other = found.detach().double().cpu(), wanted.detach().double().cpu()
    if one.shape != other.shape:
        return float("inf")
    distance = (one - other).abs()
    if not bool(torch.isfinite(distance).all()):
        return float("inf")
    return (distance.max() / other.abs().max().clamp_min(1e-30)).item()


def _talk_over(prefix):
    """Let gloo use the platform's network; the name of a node may belong to a slower one."""
    names = [name for _, name in socket.if_nameindex() if prefix and name.startswith(prefix)]
    if names:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", names[0])


class Ranks:
    """One of the ranks of a check, which start, compare and end together.

    ``size`` ranks on ``nodes`` nodes; ``node`` is the number of this one's.
    """

    def __init__(self, timeout=PATIENCE):
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.local = local_rank()
        self.local_size = int(os.environ.get("LOCAL_WORLD_SIZE", self.size))
        self.nodes = max(1, self.size // self.local_size)
        self.node = self.rank // self.local_size
        self.device = device()
        self.backend = "nccl" if self.device.type == "cuda" else "gloo"
        _talk_over(record("platform.json").get("interface_prefix", ""))
        dist.init_process_group(self.backend, timeout=timeout)
        # Messages between ranks use TCP, so that they also arrive if RCCL fails.
        self.talk = dist.new_group(backend="gloo", timeout=timeout)

    def gathered(self, value):
        """Return the values of all ranks, in their order; they are plain data."""
        values = [None] * self.size
        dist.all_gather_object(values, value, group=self.talk)
        return values

    def meet(self):
        """Wait for all other ranks."""
        wait(self.device)
        dist.barrier(group=self.talk)

    def conclude(self, problems):
        """End the check on all ranks together; those with problems fail with these.

        The processes end at once: libraries sometimes fail at their exit if other ranks have ended,
        which proves nothing about the check.
        """
        self.gathered(len(problems))
        sys.stderr.writelines(f"{problem}\n" for problem in problems)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(FAILED if problems else 0)

    def note(self, name, value):
        """Add a fact to the report, once for all ranks."""
        if self.rank == 0:
            note(name, value)
