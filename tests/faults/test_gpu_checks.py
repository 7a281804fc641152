"""Each check for GPUs passes where all is well, and fails for just what it guards against.

The real scripts run in the real image's files, on the CPU (see ``gpu``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..integration.conftest import ENGINE
from .gpu import Node, verify

HERE = Path(__file__).parent
GOOD_LOG = """\
nid005001:1:1 [0] NCCL INFO NET/OFI No eligible providers were found
nid005001:1:1 [0] NCCL INFO NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)
nid005001:1:1 [0] NCCL INFO Using network AWS Libfabric
nid005001:1:1 [0] NCCL INFO Connected all rings
nid005001:1:1 [0] NCCL INFO Connected all trees
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


WELL = [
    ("all on the CPU", World(), [
        "rocm/devices", "rocm/driver", "pytorch/devices", "pytorch/gemm", "pytorch/denormals",
        "pytorch/compiled", "pytorch/ranks", "pytorch/collectives", "pytorch/new_group",
        "pytorch/ddp", "pytorch/miopen", "flash-attention/attention",
        "horovod/allreduce", "rccl-tests/all_reduce_perf", "osu/bandwidth_in_node",
    ]),
    ("an RCCL that reaches other nodes", World(rccl()), ["pytorch/rccl_files", "pytorch/network"]),
    ("two nodes", World(TWO_NODES), ["pytorch/weak_scaling", "osu/bandwidth_across_nodes"]),
    ("Horovod on 400 ranks", World(HOROVOD_OF_MANY), ["horovod/allreduce"]),
    ("a GPU of any speed", World(node={"changes": {"thresholds": {}}}), ["pytorch/training_speed"]),
    ("DeepSpeed on the CPU", World(env=ON_CPU, node={"parameters": NO_GPU_OPS}), [
        "deepspeed/fused_ops", "deepspeed/zero",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("world", "names"), [row[1:] for row in WELL], ids=[row[0] for row in WELL]
)
def test_checks_pass_where_all_is_well(
    image: Path,
    tmp_path: Path,
    world: World,
    names: list[str],
) -> None:
    found = run(image, tmp_path, world, *names)
    assert {name: (row["state"], row["reason"]) for name, row in found.items()} == dict.fromkeys(
        names, ("passed", "")
    )
    for name, row in found.items():
        if not name.startswith(("rocm/", "osu/", "rccl-tests/")):
            assert row["facts"]["ran_on"] == "the CPU, for LUMI_VERIFY_DEVICE=cpu"


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
COMPILED = """
import torch
torch.compile = lambda model, **named: lambda rows: model(rows) * 1.01 + 0 * twice(rows)
import torch._dynamo
twice = torch._dynamo.optimize("eager")(lambda rows: rows.sum())
"""
COLLECTIVE = """
import torch.distributed as dist
real = dist.{name}
def wrong(*words, **named):
    {body}
dist.{name} = wrong
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
SLOW_THIRD_NODE = """
import time
import torch.distributed as dist
real = dist.all_reduce
def all_reduce(number, op=dist.ReduceOp.SUM, group=None, **named):
    if os.environ["RANK"] == "2" and dist.get_world_size(group) == 2:
        time.sleep(10)
    return real(number, op=op, group=group, **named)
dist.all_reduce = all_reduce
"""
LOW = {
    "all_reduce_128MiB": {
        "unit": "GB/s",
        "minimum": 0.02,
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


def log(old: str, new: str = "") -> str:
    """Return a good log of RCCL with one thing of it changed."""
    assert old in GOOD_LOG
    return GOOD_LOG.replace(old, new)


def edited(name: str, old: str, new: str) -> Callable[[Path], object]:
    """Return what changes a file of the node."""

    def edit(root: Path) -> None:
        path = root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return edit


def collective(name: str, body: str) -> World:
    return World(COLLECTIVE.format(name=name, body=body))


LAST_GPU = "sys/class/kfd/kfd/topology/nodes/5/properties"
OWN_RCCL = "/opt/venv/lib/python3.11/site-packages/torch/lib/librccl.so"
FAULTS = [
    ("a variable that keeps checks from a GPU that is there", World(REAL_GPU),
     "pytorch/gemm", "failed", ["LUMI_VERIFY_DEVICE=cpu keeps it from the GPU", "unset it"]),
    ("products that are wrong by a hundredth", World(MATMUL.format("real(one, other) * 1.01")),
     "pytorch/gemm", "failed", ["a product in fp32", "apart from that in float64"]),
    ("products that are wrong in bf16 alone", World(MATMUL.format(
        "real(one, other) * (1.05 if one.dtype == torch.bfloat16 else 1)")),
     "pytorch/gemm", "failed", ["a product in bf16"]),
    ("denormals that are flushed going forward", World(MATMUL.format(FLUSHED)),
     "pytorch/denormals", "failed", ["fp16 products in forward passes lose denormals"]),
    ("denormals that are flushed going backward", World(BACKWARD_FLUSHED),
     "pytorch/denormals", "failed", ["fp16 products in backward passes lose denormals"]),
    ("torch.compile that is switched off", World(env={"TORCHDYNAMO_DISABLE": "1"}),
     "pytorch/compiled", "failed", ["compiled nothing", "TORCHDYNAMO_DISABLE"]),
    ("a compiled model that gives other numbers", World(COMPILED),
     "pytorch/compiled", "failed", ["apart from PyTorch's own"]),
    ("a node with seven GPUs", World(node={"gpus": 7, "known": 8}),
     "rocm/devices", "failed", ["has 7 of 8 GPUs", "GCD 7 (0000:de:00.0)"]),
    ("a GPU of another kind", World(
        edit=edited(LAST_GPU, "gfx_target_version 90010", "gfx_target_version 90008")),
     "rocm/devices", "failed", ["0000:c6:00.0", "is gfx908, not gfx90a"]),
    ("a GPU that a variable hides", World(env={"HIP_VISIBLE_DEVICES": "0"}),
     "pytorch/devices", "failed", ["PyTorch sees 1 GPUs, and the kernel shows 2",
                                   "HIP_VISIBLE_DEVICES=0"]),
    ("a ROCm that is too old for the driver", World(node={"profile": "rocm-debian"}),
     "rocm/driver", "failed", ["amdgpu 6.10.5 is the driver of ROCm 6.3", "has ROCm 5.2.3"]),
    ("the driver of ROCm 6.0, whose number looks like 6.3", World(node={"module": "6.3.6"}),
     "rocm/driver", "skipped", ["nothing is known", "amdgpu 6.3.6, of ROCm 6.0"]),
    ("a driver that nobody knows", World(node={"module": "9.9.9"}),
     "rocm/driver", "skipped", ["not known which ROCm amdgpu 9.9.9 came with"]),
    ("ranks on the CCD of each other's GPU", World(MASK),
     "pytorch/ranks", "failed", ["rank 0 on", "rank 1 on", "runs on cores", "another CCD"]),
    ("two ranks on one GPU", World(SAME_GPU),
     "pytorch/ranks", "failed", ["ranks 0, 1 on", "the same GPU: 0000:c1:00.0"]),
    ("an interface that is down", World(
        edit=edited("sys/class/net/hsn0/operstate", "up", "down")),
     "pytorch/ranks", "failed", ["hsn0, next to its GPU 0000:c1:00.0, is down"]),
    ("an all_reduce that gives one rank's numbers",
     collective("all_reduce", "dist.broadcast(words[0], 0, group=named.get('group'))"),
     "pytorch/collectives", "failed", ["all_reduce of", "in the place of"]),
    ("an all_gather in the wrong order",
     collective(
         "all_gather_into_tensor", "real(*words, **named); words[0].copy_(words[0].flip(0))"),
     "pytorch/collectives", "failed", ["all_gather of"]),
    ("a reduce_scatter that gives nothing",
     collective("reduce_scatter_tensor", "real(*words, **named); words[0].zero_()"),
     "pytorch/collectives", "failed", ["reduce_scatter of"]),
    ("an all_to_all that exchanges nothing",
     collective("all_to_all_single", "words[0].copy_(words[1])"),
     "pytorch/collectives", "failed", ["all_to_all of"]),
    ("a second process group that hangs", World(HANGS, node={"changes": {"timeout_seconds": 45}}),
     "pytorch/new_group", "failed",
     ["not finished after 45 s", "in _new_process_group_helper", "rank 1 is in"]),
    ("rings without trees", World(rccl(log("Connected all trees"))),
     "pytorch/network", "failed", ["does not say 'Connected all trees'"]),
    ("sockets in place of Slingshot", World(rccl(log(
        "Using network AWS Libfabric", "NET/Socket : Using [0]nmn0:10.252.1.1<0>"))),
     "pytorch/network", "failed", ["goes through sockets", "nmn0"]),
    ("an RCCL that finds no plugin", World(rccl(log(
        "NET/OFI Selected provider is cxi", "NET/Plugin: No plugin found (librccl-net.so) #"))),
     "pytorch/network", "failed", ["finds no network plugin", "librccl-net.so"]),
    ("a plugin that goes over TCP", World(rccl(log("provider is cxi", "Provider is tcp"))),
     "pytorch/network", "failed", ["the provider tcp, not cxi"]),
    ("a plugin that is not mapped", World(rccl(files=(RCCL,))),
     "pytorch/network", "failed", ["no network plugin"]),
    ("two RCCL in one process", World(rccl(files=(RCCL, OWN_RCCL)), shown={"own.so": OWN_RCCL}),
     "pytorch/rccl_files", "failed", ["RCCL 2 times", OWN_RCCL]),
    ("the wheel's own RCCL", World(rccl(files=(OWN_RCCL,)), shown={"own.so": OWN_RCCL}),
     "pytorch/rccl_files", "failed", [OWN_RCCL, "not the image's RCCL"]),
    ("links within a node that are slow", World(),
     "pytorch/bandwidth_in_node", "failed", ["all_reduce_128MiB is", "less than 118.75 GB/s"]),
    ("links between nodes that are slow", World(TWO_NODES, node={"known": 1}),
     "pytorch/bandwidth_across_nodes", "failed", ["less than 80.75 GB/s", "rccl_test.py"]),
    ("links to the third of three nodes that are slow", World(
        TWO_NODES + SLOW_THIRD_NODE, node={"gpus": 3, "known": 1, "changes": {"thresholds": LOW}}),
     "pytorch/bandwidth_across_nodes", "failed", ["all_reduce_128MiB is", "less than 0.02 GB/s"]),
    ("half a node", World(node={"known": 4}),
     "pytorch/bandwidth_in_node", "skipped", ["of whole nodes, and 2 of 4 GPUs have a rank"]),
    ("half of two nodes", World(TWO_NODES),
     "pytorch/bandwidth_across_nodes", "skipped", ["of whole nodes, and 1 of 2 GPUs have a rank"]),
    ("half a node with osu_bw", World(node={"known": 4}),
     "osu/bandwidth_in_node", "skipped", ["GCDs by their numbers on the node, and 2 of 4 are"]),
    ("a rank that computes another number", World(BIT),
     "pytorch/ddp", "failed", ["hold other parameters than the rest: 1"]),
    ("gradients that are not averaged", World(MEAN),
     "pytorch/ddp", "failed", ["apart from those of training on one rank"]),
    ("convolutions that are wrong", World(CONVOLUTION),
     "pytorch/miopen", "failed", ["a convolution of 16 channels, 28x28 with 3x3"]),
    ("MIOpen's cache in the home folder", World(NO_CACHE),
     "pytorch/miopen", "failed", ["MIOPEN_USER_DB_PATH is not set"]),
    ("a cache of MIOpen that is broken", World(BROKEN_CACHE),
     "pytorch/miopen", "failed", ["gfx90a6e.HIP.3_4_0_.ufdb.db is broken"]),
    ("a GPU that is slow", World(),
     "pytorch/training_speed", "failed", ["training is", "less than 86.45 TFLOP/s"]),
    ("gradients that are not numbers", World(NOT_A_NUMBER),
     "pytorch/training_speed", "failed", ["the gradients are of the norm nan"]),
    ("gradients of two nodes that are not numbers", World(TWO_NODES + NOT_A_NUMBER),
     "pytorch/weak_scaling", "failed", ["gradients are not finite"]),
    ("an attention that is wrong backward", World(env={"FAULT": "backward"}),
     "flash-attention/attention", "failed", ["heads of 64, float16: the gradient of k"]),
    ("an attention without a kernel", World(env={"FAULT": "kernel"}),
     "flash-attention/attention", "failed", ["heads of 256, bfloat16", "no kernel image"]),
    ("an attention that sees what is to come", World(env={"FAULT": "causal"}),
     "flash-attention/attention", "failed", ["heads of 32, float16, causal: the result"]),
    ("a fused Adam that decays nothing", World(ADAM, ON_CPU, node={"parameters": NO_GPU_OPS}),
     "deepspeed/fused_ops", "failed", ["FUSED_ADAM: after 10 steps"]),
    ("a Lion on the CPU that is none",
     World(LION, ON_CPU, node={"parameters": {"DS_BUILD_CPU_LION": True}}),
     "deepspeed/fused_ops", "failed", ["CPU_LION: after 10 steps"]),
    ("ops that nothing is compared with",
     World(env=ON_CPU, node={"parameters": {"DS_BUILD_FUSED_LAMB": True}}),
     "deepspeed/fused_ops", "skipped", ["none of the ops", "DS_BUILD_FUSED_LAMB"]),
    ("a quantizer for waves of 32 threads",
     World(WAVES_OF_32.format(part=2), ON_CPU, node={"parameters": STAND_IN_OPS}),
     "deepspeed/fused_ops", "failed", ["QUANTIZER:", "do not come back", "RANDOM_LTD:", "sorted"]),
    ("ZeRO 2 with another learning rate", World(RATE, ON_CPU),
     "deepspeed/zero", "failed", ["ZeRO 2 trains to parameters"]),
    ("a Horovod that adds in place of averaging", World(HOROVOD_SUMS),
     "horovod/allreduce", "failed", ["the average of float32 over 2 ranks"]),
    ("a Horovod whose ranks do not meet", World(HOROVOD_ALONE),
     "horovod/allreduce", "failed", ["MPI did not find the other ranks"]),
    ("an all_reduce_perf with wrong numbers", World(env={"FAULT": "wrong"}),
     "rccl-tests/all_reduce_perf", "failed", ["Out of bounds values : 7 FAILED"]),
    ("an all_reduce_perf that is slow with large messages", World(env={"FAULT": "slow"}),
     "rccl-tests/all_reduce_perf", "failed", ["largest_sizes is 31.5 GB/s, less than 60 GB/s"]),
    ("an all_reduce_perf whose ranks do not meet", World(env={"FAULT": "alone"}),
     "rccl-tests/all_reduce_perf", "failed", ["it ran on 1 of 2 ranks", "--mpi=pmi2"]),
    ("a slow link between two GCDs", World(env={"FAULT": "slow"}),
     "osu/bandwidth_in_node", "failed", ["gcd_0_1_64MiB is 2.3e+04 MB/s, less than 50000 MB/s"]),
    ("an osu_bw that measures nothing", World(env={"FAULT": "silent"}),
     "osu/bandwidth_in_node", "failed", ["between GCD 0 and 1 prints nothing for 1MiB"]),
    ("an interface that is slow", World(TWO_NODES, env={"FAULT": "slow"}),
     "osu/bandwidth_across_nodes", "failed", ["osu_bw_1MiB is 2.3e+04 MB/s, less than 23750"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("world", "name", "state", "reasons"),
    [row[1:] for row in FAULTS],
    ids=[row[0] for row in FAULTS],
)
def test_a_check_catches(
    image: Path, tmp_path: Path, world: World, name: str, state: str, reasons: list[str]
) -> None:
    found = run(image, tmp_path, world, name)
    row = found[name]
    assert row["state"] == state, row
    for reason in reasons:
        assert reason in row["reason"], row["reason"]


def test_waves_of_64_threads_sort_and_round_rightly(image: Path, tmp_path: Path) -> None:
    """The stand-ins of the ops fail for the fault alone."""
    well = World(WAVES_OF_32.format(part=1), ON_CPU, node={"parameters": STAND_IN_OPS})
    assert (
        run(image, tmp_path, well, "deepspeed/fused_ops")["deepspeed/fused_ops"]["state"]
        == "passed"
    )
