"""Functions for checks of collectives: their numbers, their results, their speed."""

import time

import _gpu as gpu
import torch
import torch.distributed as dist
from lumi_inside.checking import measured, record, threshold

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SUMS = ("all_reduce", "reduce_scatter")
EDGE = 4096
"""How many numbers of each end of a result are looked at."""
EXACT = {torch.float32: 1 << 24, torch.float16: 1 << 11, torch.bfloat16: 1 << 8}
"""Sums of integers up to this one are exact in any order of additions."""
HALF = torch.float16
MOST = 4
"""The largest number of a rank."""


class Team:
    """Be a group of ranks of a check: ``members`` are their numbers among all.

    A rank outside the group has the index -1.
    """

    def __init__(self, ranks, members):
        # In the order in which PyTorch numbers them.
        self.ranks, self.members = ranks, sorted(members)
        self.size = len(self.members)
        self.group = dist.new_group(self.members, backend=ranks.backend, timeout=gpu.PATIENCE)
        self.index = self.members.index(ranks.rank) if ranks.rank in self.members else -1

    def counts(self, collective, count):
        """Return how many numbers go in and come out on each rank, of ``count`` in all."""
        part = count // self.size
        into = part if collective == "all_gather" else count
        return into, part if collective == "reduce_scatter" else count

    def buffers(self, collective, count, dtype):
        """Return what this rank hands in, and where the result goes; ``count`` numbers in all."""
        on, (into, out) = self.ranks.device, self.counts(collective, count)
        every = self.every(collective, dtype)
        # What is handed in repeats itself. The numbers of all places in 64 bits, of which a message
        # is computed, would need several times its memory.
        part = given(torch.arange((MOST + 1) * every, device=on), self.index, every).to(dtype)
        handed = part.repeat(-(-into // len(part)))[:into]
        return handed, torch.zeros(out, dtype=dtype, device=on)

    def run(self, collective, handed, result):
        """Run a collective once; all_reduce works in place."""
        if collective == "all_reduce":
            dist.all_reduce(handed, group=self.group)
        elif collective == "all_gather":
            dist.all_gather_into_tensor(result, handed, group=self.group)
        elif collective == "reduce_scatter":
            dist.reduce_scatter_tensor(result, handed, group=self.group)
        else:
            dist.all_to_all_single(result, handed, group=self.group)

    def every(self, collective, dtype):
        """Return of how many ranks one hands in a number other than 0 at each place."""
        return one_of(self.size, dtype) if collective in SUMS else 1

    def wanted(self, collective, index, count, every):
        """Return what stands at some places of the result that a collective must give this rank."""
        part = count // self.size
        if collective == "all_gather":
            return given(index % part, index // part)
        if collective == "all_to_all":
            return given(self.index * part + index % part, index // part)
        shifted = index + (self.index * part if collective == "reduce_scatter" else 0)
        return sum(given(shifted, member, every) for member in range(self.size))

    def wrong(self, collective, count, dtype):
        """Run a collective once, and return in words what is wrong with its result."""
        handed, result = self.buffers(collective, count, dtype)
        self.run(collective, handed, result)
        came = handed if collective == "all_reduce" else result
        length = came.numel()
        ends = (*range(min(EDGE, length)), *range(max(EDGE, length - EDGE), length))
        index = torch.tensor(ends, device=came.device)
        every = self.every(collective, dtype)
        wanted = self.wanted(collective, index, count, every).double()
        bad = came[index].double() != wanted
        if not bool(bad.any()):
            return ""
        first = int(bad.nonzero()[0])
        return (
            f"{collective} of {count} {str(dtype)[6:]} over {self.size} ranks gives "
            f"{came[index][first].item():g} at {int(index[first])} in the place of "
            f"{wanted[first].item():g} on rank {self.ranks.rank}"
        )

    def seconds(self, collective, count, rounds):
        """Return the time of one collective in half precision, on the slowest rank.

        All ranks call it, those too that are in no team.
        """
        if self.index < 0:
            self.ranks.meet()
            return self.ranks.gathered(0.0, max)
        handed, result = (
            torch.zeros(each, dtype=HALF, device=self.ranks.device)
            for each in self.counts(collective, count)
        )
        self.run(collective, handed, result)
        self.ranks.meet()
        # Ranks leave a meeting one after the other, and a collective together.
        self.run(collective, handed, result)
        gpu.wait(self.ranks.device)
        begun = time.perf_counter()
        for _ in range(rounds):
            self.run(collective, handed, result)
        gpu.wait(self.ranks.device)
        return self.ranks.gathered((time.perf_counter() - begun) / rounds, max)


def own(teams):
    """Return this rank's team, or else the first, in which it only waits for the others."""
    return next((team for team in teams if team.index >= 0), teams[0])


def one_of(ranks, dtype):
    """Return of how many ranks one may add to a place, so that the sum of all is exact.

    Others are rounded at each addition: 4096 ranks of a ring that add up to 8190 come to 1024 in
    bfloat16.
    """
    return -(-ranks * MOST // EXACT[dtype])


def given(index, rank, every=1):
    """Return the numbers that a rank hands in at some places: whole, from 0 to MOST.

    All but one of ``every`` ranks hand in 0 at a place.
    """
    return (index + 3 * rank) % (MOST + 1) * ((index + rank) % every == 0)


def bus_bandwidth(collective, size, seconds, ranks):
    """Return the bandwidth of the links in GB/s, as rccl-tests computes it from bytes and seconds.

    nccl-tests, doc/PERFORMANCE.md; ``size`` is that of the longer of what goes in and comes out.
    """
    factor = (2 if collective == "all_reduce" else 1) * (ranks - 1) / ranks
    return size * factor / seconds / 1e9


def sizes(on):
    """Return the sizes of messages to measure with, bytes."""
    if on.type == "cuda":
        return [gpu.MIB << power for power in range(11)]
    return [gpu.MIB, 128 * gpu.MIB]


def bandwidths(team):
    """Return a line of a picture for each collective: points of bytes and GB/s.

    All ranks call it, each with its own team; the slowest rank of all counts.
    """
    on = team.ranks.device
    return [
        {"name": collective, "points": [_point(team, collective, size) for size in sizes(on)]}
        for collective in COLLECTIVES
    ]


def _point(team, collective, size):
    count = size // HALF.itemsize // team.size * team.size
    rounds = 20 if team.ranks.device.type == "cuda" else 1
    taken = team.seconds(collective, count, rounds)
    return [size, round(bus_bandwidth(collective, size, taken, team.size), 3)]


def at(series, size, collective="all_reduce"):
    """Return the bandwidth of a collective with messages of a size."""
    points = next(each["points"] for each in series if each["name"] == collective)
    return dict(map(tuple, points)).get(size)


def slowest(every):
    """Return the lines of several measurements as one: the lowest bandwidth with each size."""
    return [
        {
            "name": lines[0]["name"],
            "points": [
                min(points, key=lambda point: point[1])
                for points in zip(*(line["points"] for line in lines), strict=True)
            ],
        }
        for lines in zip(*every, strict=True)
    ]


def picture(title, series, *thresholds):
    """Return what ``bandwidths`` measured as a picture, with the references of thresholds."""
    rows = [(name, threshold(name)) for name in thresholds]
    references = [
        {"name": name, "value": row["reference"], "source": row["source"]}
        for name, row in rows
        if row
    ]
    return {"title": title, "unit": "GB/s", "series": series, "references": references}


def judge(ranks, series, names):
    """Hand on what was measured with all_reduce, ``names`` being sizes by their thresholds.

    Thresholds are of whole nodes: fewer GPUs have fewer links between them.
    """
    gpus = len(record("platform.json").get("gpus", ()))
    other = [len(each) for each in ranks.on_nodes if len(each) != gpus]
    if other:
        why = f"limits are of whole nodes, and {other[0]} of {gpus} GPUs have a rank"
        ranks.note("unjudged", why)
        return
    for name, size in names.items():
        found = at(series, size)
        if ranks.rank == 0 and found is not None:
            measured(name, found)
