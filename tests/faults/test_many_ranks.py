"""Checks of ranks hold however many ranks there are, and wherever the launcher put them.

What cannot be here, a thousand ranks, is made up: two ranks run, each of which takes all others for
its equals.
"""

from pathlib import Path

from . import gpu
from .breaking import holds
from .gpu import Node

NO_GLOO = """
import torch.distributed as dist
real = dist.new_group
def new_group(*words, backend=None, **named):
    if backend == "gloo":
        raise RuntimeError("gloo: connectFullMesh failed")
    return real(*words, backend=backend, **named)
dist.new_group = new_group
"""
OF_MANY = """
import torch
import torch.distributed as dist
os.environ.update(RANK="0", WORLD_SIZE="{ranks}")
class Store:
    def __init__(self, *words):
        self.kept = {{}}
    def set(self, key, value):
        self.kept[key] = self.last = value
    def get(self, key):
        return self.kept.get(key, self.last)
    def add(self, key, number):
        return {ranks}
def nothing(*words, **named):
    pass
dist.rendezvous = lambda *words, **named: iter([(None, 0, 0)])
dist.PrefixStore = Store
dist.init_process_group = dist.new_group = dist.destroy_process_group = dist.all_reduce = nothing
"""
HOROVOD = """
import horovod.torch as hvd
def allreduce(number, op=None, name=None):
    total = torch.zeros_like(number)
    for rank in range(400):
        total += ((torch.arange(len(number)) + 3 * rank) % 5).to(number.dtype)
    return total / 400 if op == hvd.Average else total
hvd.init = hvd.shutdown = nothing
hvd.rank, hvd.size = (lambda: 0), (lambda: 400)
hvd.allreduce, hvd.allreduce_ = allreduce, nothing
"""
COLLECTIVES = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
ALL = 4096
def given(index, rank, every=1):
    from _collectives import given
    return given(index, rank, every)
def filled(came, period):
    period = period.to(came.dtype)
    came.copy_(period.repeat(-(-len(came) // len(period)))[:len(came)])
def added(came, *words, **named):
    from _collectives import one_of
    every = one_of(ALL, came.dtype)
    total = torch.zeros(5 * every, dtype=came.dtype)
    for rank in range(ALL):
        total += given(torch.arange(5 * every), rank, every)
    filled(came, total)
def of_each(came, *words, **named):
    index = torch.arange(len(came) // ALL)
    filled(came, torch.cat([given(index, rank) for rank in range(5)]))
dist.all_reduce = dist.reduce_scatter_tensor = added
dist.all_gather_into_tensor = dist.all_to_all_single = of_each
"""
"""Gives what 4096 ranks give, of which this is the first, and has not much memory for it.

It adds as a ring does, one after the other and each time rounded.
"""
SUM_OF_TURNS = """
turns = []
def all_reduce(number, group=None):
    turns.append(1)
    number.fill_(4096 * len(turns) + 4096 * 4095 / 2)
dist.all_reduce = all_reduce
"""


def test_plain_data_reaches_all_ranks_without_a_connection_of_each_two(
    image: Path, tmp_path: Path
) -> None:
    names = ("pytorch/ranks", "pytorch/ddp")
    for row in gpu.verify(image, tmp_path, Node(NO_GLOO), *names).values():
        holds(row)


def test_sums_of_horovod_are_right_on_400_ranks(image: Path, tmp_path: Path) -> None:
    node = Node(OF_MANY.format(ranks=400) + HOROVOD)
    (row,) = gpu.verify(image, tmp_path, node, "horovod/allreduce").values()
    holds(row)


def test_collectives_of_4096_ranks_fit_into_memory_and_add_up(image: Path, tmp_path: Path) -> None:
    node = Node(OF_MANY.format(ranks=4096) + COLLECTIVES)
    (row,) = gpu.verify(image, tmp_path, node, "pytorch/collectives").values()
    holds(row)


def test_with_thousands_of_ranks_fewer_process_groups_are_made(image: Path, tmp_path: Path) -> None:
    node = Node(OF_MANY.format(ranks=4096) + SUM_OF_TURNS)
    (row,) = gpu.verify(image, tmp_path, node, "pytorch/new_group").values()
    holds(row)
    assert "making process group 3 of 3" in row["output"]
