"""Functions for checks that train on several ranks: data, model, shards and the comparison.

Every rank also trains the same model alone, on the images of all ranks. The parameters of both
must be equal.
"""

import hashlib
import os
import statistics
import sys
from importlib import import_module
from importlib.util import find_spec

import torch
import torch.distributed as dist
from lumi_inside.checking import failed, note
from torch.nn.functional import cross_entropy

STEPS = 20
BATCH = 256
"""Images that all ranks together see in a step."""
RATE = 0.2
FALLS_TO = 0.7
"""The largest final loss, relative to the first one; about 0.2 is usual."""
APART = 1e-3
"""The allowed distance of parameters from a single process's, relative to the largest of these.

Seen: 1e-5 where parameters begin 1e-6 apart, 0.1 where a rank uses its own gradient alone. The
tangent keeps it so; with a network that has kinks the former is a hundred times as much.
"""
SAME = 1e-4
"""How far norms of the same gradient may be from each other, relative to their median."""
FEATURES, DIGITS = 64, 10


def device():
    """Return this rank's GPU, or the CPU if there is not one for each rank."""
    count, ranks = torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"])
    # Slurm may show each task only its own GPU.
    shown = count == 1 and "SLURM_STEP_ID" in os.environ
    if not torch.cuda.is_available() or (count < ranks and not shown):
        note("device", "cpu")
        return torch.device("cpu")
    chosen = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % count)
    torch.cuda.set_device(chosen)
    note("device", torch.cuda.get_device_name(chosen))
    return chosen


def load(where):
    """Return images (N, 64) in 0..1 and labels (N,), the same on every rank."""
    if find_spec("sklearn") is None:
        print("made-up images, for scikit-learn is not in the image")
        random = torch.Generator().manual_seed(0)
        labels = torch.randint(DIGITS, (2000,), generator=random)
        kinds = torch.rand(DIGITS, FEATURES, generator=random)
        images = kinds[labels] + 0.3 * torch.randn(len(labels), FEATURES, generator=random)
    else:
        print("the digits of scikit-learn")
        datasets = import_module("sklearn.datasets")
        images, labels = map(torch.tensor, datasets.load_digits(return_X_y=True))
        images = images.float() / 16
    return images.to(where), labels.to(where)


def model(seed, where):
    """Return the network with weights of the rank ``seed``.

    Ranks that start apart and end together were synchronized by the framework.
    """
    torch.manual_seed(seed)
    layers = (torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, DIGITS))
    return torch.nn.Sequential(*layers).to(where)


def optimizer(network):
    """Return what both the ranks and the one process train with."""
    return torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9)


def share(ranks):
    """Return how many images a rank sees in a step."""
    return max(1, BATCH // ranks)


def batches(data, ranks, rank=None):
    """Yield the batches of a rank, or of all ranks together."""
    images, labels = data
    mine = share(ranks)
    random = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        # With more images than there are, some are seen twice.
        every = torch.randint(len(labels), (mine * ranks,), generator=random).to(labels.device)
        own = every if rank is None else every[rank * mine : (rank + 1) * mine]
        yield images[own], labels[own]


def conclude_and_leave(network, losses, data):
    """Conclude among PyTorch's own ranks, and end this one at once.

    At Python's own end PyTorch's threads abort a rank now and then, when all has been said
    ("terminate called without an active exception": PyTorch 2.13 with gloo, on a busy machine).
    """
    code = 0
    try:
        conclude(network, losses, data, ranks=dist.get_world_size(), gather=_gather)
        dist.destroy_process_group()
    except SystemExit as verdict:
        code = verdict.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _gather(row):
    rows = [None] * dist.get_world_size()
    dist.all_gather_object(rows, row)
    return rows


def conclude(network, losses, data, *, ranks, gather):
    """Fail if the ranks have not trained as one process does.

    ``gather`` takes a row of plain data, and returns the rows of all ranks.
    """
    where = data[0].device
    row = {
        "norm": _norm(data, where),
        "first": statistics.mean(losses[:3]),
        "last": statistics.mean(losses[-3:]),
        "checksum": _checksum(network),
        "apart": _apart(network, data, ranks, where),
    }
    rows = gather(row)
    middle = statistics.median(each["norm"] for each in rows)
    print(f"{ranks} ranks on {where.type}, loss {row['first']:.3f} to {row['last']:.3f}")
    odd = _where(rows, lambda each: not abs(each["norm"] - middle) <= SAME * middle)
    if odd:
        norms = ", ".join(f"rank {one}: {rows[one]['norm']:.6g}" for one in odd)
        failed(f"ranks compute other gradients from the same images; their norms are {norms}")
    stuck = _where(rows, lambda each: not each["last"] <= FALLS_TO * each["first"])
    if stuck:
        each = rows[stuck[0]]
        failed(
            f"the loss does not fall in {STEPS} steps on rank {_named(stuck)}: "
            f"{each['first']:.3f} to {each['last']:.3f}"
        )
    other = _where(rows, lambda each: each["checksum"] != rows[0]["checksum"])
    if other:
        failed(f"parameters differ from rank 0's on rank {_named(other)}: ranks do not agree")
    far = max(each["apart"] for each in rows)
    if not far <= APART:
        failed(
            f"after {STEPS} steps the parameters are {far:.2g} away from those of one process that "
            "saw the same images: the gradients are not averaged over the ranks"
        )
    note("apart", far)


def _norm(data, where):
    """Return the norm of the gradient that this rank alone computes of the first images."""
    images, labels = data
    network = model(0, where)
    cross_entropy(network(images[:BATCH]), labels[:BATCH]).backward()
    grads = [each.grad.flatten() for each in network.parameters()]
    return torch.cat(grads).norm().item()


def _apart(network, data, ranks, where):
    alone = model(0, where)
    steps = optimizer(alone)
    for images, labels in batches(data, ranks):
        steps.zero_grad()
        cross_entropy(alone(images), labels).backward()
        steps.step()
    pairs = zip(network.parameters(), alone.parameters(), strict=True)
    largest = max(each.abs().max().item() for each in alone.parameters())
    return max((ours - its).abs().max().item() for ours, its in pairs) / largest


def _checksum(network):
    digest = hashlib.sha256()
    for each in network.parameters():
        digest.update(each.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


def _where(rows, holds):
    return [rank for rank, each in enumerate(rows) if holds(each)]


def _named(ranks):
    return ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
