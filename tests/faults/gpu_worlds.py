"""Nodes and images on which one thing is wrong, as patches of the processes that run a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..integration.conftest import ENGINE
from .gpu import Node, verify

HERE = Path(__file__).parent
LAST_GPU = "sys/class/kfd/kfd/topology/nodes/5/properties"
OWN_RCCL = "/opt/venv/lib/python3.11/site-packages/torch/lib/librccl.so"
GOOD_LOG = """\
nid005001:1:1 [0] NCCL INFO NET/OFI No eligible providers were found
nid005001:1:1 [0] NCCL INFO NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)
nid005001:1:1 [0] NCCL INFO Using network AWS Libfabric
nid005001:1:1 [0] NCCL INFO Connected all rings
nid005001:1:1 [0] NCCL INFO Connected all trees
"""
BAD_LOG = """\
nid005001:1:1 [0] NCCL INFO NET/Plugin: No plugin found (librccl-net.so)
nid005001:1:1 [0] NCCL INFO NET/OFI Selected Provider is tcp, fabric is tcp
nid005001:1:1 [0] NCCL INFO NET/Socket : Using [0]nmn0:10.252.1.1<0>
nid005001:1:1 [0] NCCL INFO Connected all rings
"""
RCCL, PLUGIN = "/opt/rocm/lib/librccl.so.1", "/opt/rocm/lib/librccl-net.so"
STAND_IN_RCCL = """
import mmap
import torch.distributed as dist
kept = []
for path in {files!r}:
    with open(path, "rb") as stream:
        kept.append(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ))
begin = dist.init_process_group
def begin_with_a_log(*words, **named):
    with open(os.environ["NCCL_DEBUG_FILE"], "w") as stream:
        stream.write({log!r})
    return begin(*words, **named)
if "NCCL_DEBUG_FILE" not in os.environ:
    dist.init_process_group = begin_with_a_log
"""
TWO_NODES = """
rank = os.environ.get("RANK", "0")
os.environ.update(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", NODE_RANK=rank)
named = os.uname()
os.uname = lambda: os.uname_result((named[0], f"nid00500{rank}", *named[2:]))
"""
HOROVOD_OF_MANY = """
import torch
import torch.distributed as dist
import horovod.torch as hvd
os.environ["WORLD_SIZE"] = "400"
def nothing(*words, **named):
    pass
def handed_to_all(values, value, group=None):
    values[:] = [value] * len(values)
def allreduce(number, op=None, name=None):
    total = torch.zeros_like(number)
    for rank in range(400):
        total += ((torch.arange(len(number)) + 3 * rank) % 5).to(number.dtype)
    return total / 400 if op == hvd.Average else total
hvd.init = hvd.shutdown = nothing
hvd.rank, hvd.size = (lambda: int(os.environ["RANK"])), (lambda: 400)
hvd.allreduce, hvd.allreduce_ = allreduce, nothing
dist.init_process_group = dist.new_group = dist.barrier = dist.all_reduce = nothing
dist.all_gather_object = handed_to_all
"""
NO_GPU_OPS = {"DS_BUILD_FUSED_ADAM": True, "DS_BUILD_CPU_ADAM": True}
STAND_IN_OPS = {"DS_BUILD_QUANTIZER": True, "DS_BUILD_RANDOM_LTD": True}
WRONG_OPS = {"DS_BUILD_FUSED_ADAM": True, "DS_BUILD_CPU_LION": True, **STAND_IN_OPS}
ON_CPU = {"DS_ACCELERATOR": "cpu"}


def rccl(log: str = GOOD_LOG, files: tuple[str, ...] = (RCCL, PLUGIN)) -> str:
    """Return what maps files as an RCCL's, and writes the log of one."""
    return STAND_IN_RCCL.format(log=log, files=files)


@dataclass
class World:
    """Hold how a node and an image differ from those that are well; ``shown`` are files by name."""

    python: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    node: Mapping[str, Any] = field(default_factory=dict)
    edit: Callable[[Path], object] | None = None
    """What is done to the node's files, which lie below ``root``."""


STAND_INS = {
    "stand_in_flash_attention": "/stand-in-flash-attention",
    "stand_in_programs/stand_in_osu_bw": "/usr/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_bw",
    "stand_in_programs/stand_in_all_reduce_perf": "/usr/local/bin/all_reduce_perf",
}


def run(image: Path, folder: Path, world: World, *names: str) -> dict[str, dict[str, Any]]:
    libraries = folder / "rocm"
    libraries.mkdir()
    for path in (RCCL, PLUGIN):
        (libraries / Path(path).name).write_bytes(b"\x7fELF")
    binds = {HERE / name: at for name, at in STAND_INS.items()}
    binds[libraries] = "/opt/rocm/lib"
    for name, at in world.shown.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\x7fELF")
        binds[folder / name] = at
    node = Node(
        folder,
        python=world.python,
        env={"PYTHONPATH": "/faults:/stand-in-flash-attention", **world.env},
        binds=binds,
        **world.node,
    )
    return verify(ENGINE, image, node, *names, edit=world.edit)


MATMUL = """
import torch
real = torch.matmul
torch.matmul = lambda one, other: {0}
"""
FLUSHED = "torch.where(real(one, other).abs() < 1e-4, 0, real(one, other)).to(one.dtype)"
BACKWARD_FLUSHED = """
import torch
real = torch.matmul
class Flushed(torch.autograd.Function):
    def forward(_, given):
        return given.clone()
    def backward(_, gradient):
        return torch.where(gradient.abs() < 1e-4, 0, gradient)
Flushed.forward, Flushed.backward = map(staticmethod, (Flushed.forward, Flushed.backward))
torch.matmul = lambda one, other: real(Flushed.apply(one), Flushed.apply(other))
"""
COMPILED_WITHOUT_CXX = """
if sys.orig_argv[-1].endswith("/compiled.py"):
    import torch
    inductor = torch.compile
    torch.compile = lambda model, **named: inductor(model, backend="aot_eager", **named)
"""
COMPILED = """
import torch
torch.compile = lambda model, **named: lambda rows: model(rows) * 1.01 + 0 * twice(rows)
import torch._dynamo
twice = torch._dynamo.optimize("eager")(lambda rows: rows.sum())
"""
COLLECTIVES = """
import torch.distributed as dist
def replaced(name, wrong):
    real = getattr(dist, name)
    setattr(dist, name, lambda *words, **named: wrong(real, *words, **named))
def backwards(real, came, *words, **named):
    real(came, *words, **named)
    came.copy_(came.flip(0))
replaced("all_reduce", lambda _, came, group=None, **named: dist.broadcast(came, 0, group=group))
replaced("all_gather_into_tensor", backwards)
replaced("reduce_scatter_tensor", lambda _, came, *words, **named: came.zero_())
replaced("all_to_all_single", lambda _, came, given, **named: came.copy_(given))
"""
REAL_GPU = """
exists = os.path.exists
os.path.exists = lambda path: path == "/dev/kfd" or exists(path)
"""
HANGS = """
import time
import torch.distributed as dist
real, made = dist.new_group, []
def hangs(*words, **named):
    made.append(1)
    if len(made) == 4 and os.environ["RANK"] == "1":
        time.sleep(3600)
    return real(*words, **named)
dist.new_group = hangs
"""
BIT = """
import torch
real = torch.optim.SGD.step
def step(self, *words, **named):
    real(self, *words, **named)
    if os.environ["RANK"] == "1":
        with torch.no_grad():
            self.param_groups[0]["params"][0].view(-1)[0] += 1e-3
torch.optim.SGD.step = step
"""
MEAN = """
import torch
real = torch.nn.parallel.DistributedDataParallel
torch.nn.parallel.DistributedDataParallel = lambda model, **named: model
"""
CONVOLUTION = """
import torch
real = torch.nn.functional.conv2d
def conv2d(image, weight, **named):
    scale = 1.01 if image.dtype == torch.float32 and weight.shape[-1] == 3 else 1
    return real(image, weight, **named) * scale
torch.nn.functional.conv2d = conv2d
"""
NO_CACHE = """
del os.environ["MIOPEN_USER_DB_PATH"]
"""
BROKEN_CACHE = """
folder = os.environ["MIOPEN_USER_DB_PATH"] = "/faults/miopen"
os.makedirs(folder, exist_ok=True)
with open(folder + "/gfx90a6e.HIP.3_4_0_.ufdb.db", "wb") as stream:
    stream.write(b"SQLite format 3\\0" + b"\\1" * 4096)
"""
MASK = """
cores = sorted(os.sched_getaffinity(os.getppid()))
os.sched_setaffinity(0, {cores[1 - int(os.environ["LOCAL_RANK"])]})
"""
SAME_GPU = """
os.environ["LOCAL_RANK"] = "0"
"""
ADAM = """
import deepspeed.ops.adam as adam
class Other(adam.FusedAdam):
    def __init__(self, given, **how):
        super().__init__(given, **{**how, "weight_decay": 0.0})
adam.FusedAdam = Other
"""
WAVES_OF_32 = """
import torch
from deepspeed.ops import op_builder
class StandInQuantizer:
    Symmetric = 0
    def load(self):
        return self
    def quantize(self, numbers, groups, bits, kind):
        half = numbers.shape[1] // {part}
        scales = numbers[:, :half].float().abs().amax(1, keepdim=True) / 127
        return (numbers.float() / scales).round().clamp(-128, 127).to(torch.int8), scales
    def dequantize(self, kept, scales, groups, bits, kind):
        return (kept.float() * scales).half()
class StandInSorting:
    def load(self):
        return self
    def token_sort_(self, tokens, length):
        halves = tokens.unflatten(-1, ({part}, -1))
        return halves.sort(-1).values.flatten(-2)
op_builder.QuantizerBuilder, op_builder.RandomLTDBuilder = StandInQuantizer, StandInSorting
"""
RATE = """
import deepspeed
real = deepspeed.initialize
def initialize(*words, config, **named):
    if config["zero_optimization"]["stage"] == 2:
        config["optimizer"] = {"type": "AdamW", "params": {"lr": 2e-2}}
    return real(*words, config=config, **named)
deepspeed.initialize = initialize
"""
HOROVOD_SUMS = """
import horovod.torch as hvd
real = hvd.allreduce
hvd.allreduce = lambda number, op=None, name=None: real(number, op=hvd.Sum, name=name)
"""
SLOW_LINKS = """
import time
import torch.distributed as dist
def slowly(came, *words, group=None, **named):
    time.sleep(came.nbytes / 50e9)
for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
    setattr(dist, name, slowly)
"""
SLOW_THIRD_NODE = """
def all_reduce(number, group=None, **named):
    if os.environ["RANK"] == "2" and dist.get_world_size(group) == 2:
        time.sleep(number.nbytes / 2**27)
dist.all_reduce = all_reduce
"""
LOW = {
    "all_reduce_128MiB": {
        "unit": "GB/s",
        "minimum": 1,
        "reference": 1,
        "architecture": "gfx90a",
        "source": "x",
    }
}
LION = """
import torch
import deepspeed.ops.lion as lion
class Other(torch.optim.SGD):
    def __init__(self, given, lr, **how):
        super().__init__(given, lr)
lion.DeepSpeedCPULion = Other
"""
HOROVOD_ALONE = """
import horovod.torch as hvd
hvd.size, hvd.rank = (lambda: 1), (lambda: 0)
"""
NOT_A_NUMBER = """
import torch
real = torch.nn.RMSNorm.forward
torch.nn.RMSNorm.forward = lambda self, rows: real(self, rows) * float("nan")
"""


def edited(name: str, old: str, new: str) -> Callable[[Path], object]:
    """Return what changes a file of the node."""

    def edit(root: Path) -> None:
        path = root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return edit
