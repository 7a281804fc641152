"""Functions for checks that compute: their device, their ranks and their times.

PyTorch calls a GPU of any maker ``cuda``, so these checks run on all, and report the device.
LUMI_VERIFY_DEVICE=cpu selects the CPU and gloo, which tests use on machines without a GPU.
lumi-verify never sets it, and a check fails if it is set on a machine with an AMD GPU.
"""

import datetime
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from lumi_inside.checking import FAILED, failed, note, skipped

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
    """Return the device to compute on: this rank's GPU, or the GPU of a given number."""
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
    # PyTorch for CUDA has the GPU's name in the place of the architecture.
    kind = found.gcnArchName if torch.version.hip else f"CUDA {torch.version.cuda}"
    note("ran_on", f"{found.name} ({kind})")
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


def _node():
    """Return what names this rank's node: its number, or its name if the launcher numbers none."""
    return next(filter(None, map(os.environ.get, ("NODE_RANK", "GROUP_RANK"))), os.uname().nodename)


class Ranks:
    """One of the ranks of a check, which start, compare and end together.

    ``size`` ranks on ``nodes`` nodes, whatever their order; ``on_nodes`` has the ranks of each.
    """

    def __init__(self, timeout=PATIENCE):
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.local = local_rank()
        self.device = device()
        self.backend = "nccl" if self.device.type == "cuda" else "gloo"
        store = next(dist.rendezvous("env://", timeout=timeout))[0]
        # Plain data goes through the store, over TCP, so that it also arrives if RCCL fails. Gloo
        # would connect each two ranks, which fails with more than about a thousand (gloo issues 327
        # and 419).
        self._store, self._turn = dist.PrefixStore("lumi-verify", store), 0
        ours = {"store": dist.PrefixStore("torch", store), "rank": self.rank}
        dist.init_process_group(self.backend, world_size=self.size, timeout=timeout, **ours)
        nodes = {}
        for rank, node in enumerate(self.gathered(_node())):
            nodes.setdefault(node, []).append(rank)
        self.on_nodes, self.nodes = list(nodes.values()), len(nodes)

    def gathered(self, value, choose=list):
        """Return what ``choose`` makes of the values of all ranks: by default all, in their order.

        Values are plain data. Rank 0 collects them, and each rank fetches what it chooses.
        """
        self._turn += 1
        place, chosen = (f"{self._turn}/{what}" for what in ("of", "chosen"))
        self._store.set(f"{place}/{self.rank}", json.dumps(value))
        if self.rank == 0:
            every = [self._store.get(f"{place}/{rank}") for rank in range(self.size)]
            self._store.set(chosen, json.dumps(choose([json.loads(each) for each in every])))
        return json.loads(self._store.get(chosen))

    def meet(self):
        """Wait for all other ranks."""
        wait(self.device)
        self._arrive()

    def _arrive(self, *, stays=True):
        """Count this rank as one that is here, and wait until all are if it stays."""
        self._turn += 1
        count, complete = (f"{self._turn}/{what}" for what in ("count", "complete"))
        if self._store.add(count, 1) == self.size:
            self._store.set(complete, "1")
        if stays:
            self._store.get(complete)

    def conclude(self, problems):
        """End the check on all ranks together; those with problems fail with these.

        The processes end at once: libraries sometimes fail at their exit if other ranks have ended,
        which proves nothing about the check.
        """
        self._arrive()
        sys.stderr.writelines(f"{problem}\n" for problem in problems)
        sys.stdout.flush()
        sys.stderr.flush()
        # Rank 0 may hold the store, which the others need until they have arrived.
        self._arrive(stays=self.rank == 0)
        os._exit(FAILED if problems else 0)

    def note(self, name, value):
        """Add a fact to the report, once for all ranks."""
        if self.rank == 0:
            note(name, value)
