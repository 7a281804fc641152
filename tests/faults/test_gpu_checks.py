"""Each check for GPUs passes where all is well, and fails for just what it guards against.

The real scripts run in the real image's files, on the CPU (see ``gpu``). Faults that one check
reports together are in one container: each reason of a row belongs to one fault.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import gpu
from .gpu import Node
from .stand_in_layers import HERE, OWN_RCCL, RCCL

LAST_GPU = "sys/class/kfd/kfd/topology/nodes/5/properties"
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
PLUGIN = "/opt/rocm/lib/librccl-net.so"
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
NO_GPU_OPS = {"DS_BUILD_FUSED_ADAM": True, "DS_BUILD_CPU_ADAM": True}
STAND_IN_OPS = {"DS_BUILD_QUANTIZER": True, "DS_BUILD_RANDOM_LTD": True}
WRONG_OPS = {"DS_BUILD_FUSED_ADAM": True, "DS_BUILD_CPU_LION": True, **STAND_IN_OPS}
ON_CPU = {"DS_ACCELERATOR": "cpu"}


def rccl(log: str = GOOD_LOG, files: tuple[str, ...] = (RCCL, PLUGIN)) -> str:
    """Return what maps files as an RCCL's, and writes the log of one."""
    return STAND_IN_RCCL.format(log=log, files=files)


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
MEMORY = """
import torch
real = torch.Tensor.__add__
def changed(one, other):
    result = real(one, other)
    if one.dtype == torch.int64 and isinstance(other, int) and other == 0:
        result[5] ^= 1 << 20
    return result
torch.Tensor.__add__ = changed
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
NO_CACHE = 'del os.environ["MIOPEN_USER_DB_PATH"]\n'
BROKEN_CACHE = """
folder = os.environ["MIOPEN_USER_DB_PATH"] = "/faults/miopen"
os.makedirs(folder, exist_ok=True)
with open(folder + "/gfx90a6e.HIP.3_4_0_.ufdb.db", "wb") as stream:
    stream.write(b"SQLite format 3\\0" + b"\\1" * 4096)
"""
MASK = """
guard = open(f"/proc/{os.getppid()}/stat").read()
cores = sorted(os.sched_getaffinity(int(guard.rpartition(")")[2].split()[1])))
os.sched_setaffinity(0, {cores[1 - int(os.environ["LOCAL_RANK"])]})
"""
SAME_GPU = 'os.environ["LOCAL_RANK"] = "0"\n'
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
        scales = numbers[:, :half].float().abs().amax(1, keepdim=True) / 128
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
LOW = {"unit": "GB/s", "minimum": 1, "reference": 1, "architecture": "gfx90a", "source": "x"}
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
STAND_INS = {
    "stand_in_flash_attention": "/stand-in-flash-attention",
    "stand_in_programs/stand_in_osu_bw": "/usr/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_bw",
    "stand_in_programs/stand_in_all_reduce_perf": "/usr/local/bin/all_reduce_perf",
}
WELL = [
    ("all on the CPU", Node(COMPILED_WITHOUT_CXX), [
        "rocm/devices", "rocm/driver", "pytorch/devices", "pytorch/memory", "pytorch/gemm",
        "pytorch/denormals", "pytorch/compiled", "pytorch/ranks", "pytorch/collectives",
        "pytorch/new_group",
        "pytorch/ddp", "pytorch/miopen", "flash-attention/attention",
        "horovod/allreduce", "rccl-tests/all_reduce_perf", "osu/bandwidth_in_node",
    ]),
    ("an RCCL that reaches other nodes", Node(rccl()), ["pytorch/rccl_files", "pytorch/network"]),
    ("two nodes", Node(TWO_NODES), ["pytorch/weak_scaling", "osu/bandwidth_across_nodes"]),
    ("an attention for heads of up to 128", Node(env={"FAULT": "kernel"}, parameters={
     "flash-attention": {"provider": "ck", "OPT_DIM": "64,128"}}), ["flash-attention/attention"]),
    ("a GPU of any speed", Node(changes={"thresholds": {}}), ["pytorch/training_speed"]),
    ("DeepSpeed on the CPU, with ops for waves of 64 threads",
     Node(WAVES_OF_32.format(part=1), ON_CPU, parameters={"deepspeed": NO_GPU_OPS | STAND_IN_OPS}),
     ["deepspeed/fused_ops", "deepspeed/zero"]),
]  # fmt: skip
FAULTS = [
    ("a variable that keeps checks from a GPU that is there", Node(REAL_GPU),
     "pytorch/gemm", ["LUMI_VERIFY_DEVICE=cpu keeps it from the GPU", "unset it"]),
    ("products that are wrong, in bf16 by more",
     Node(MATMUL.format("real(one, other) * (1.05 if one.dtype == torch.bfloat16 else 1.01)")),
     "pytorch/gemm", ["a product in fp32", "a product in bf16", "apart from that in float64"]),
    ("memory that changes a bit", Node(MEMORY),
     "pytorch/memory", ["1 of 2097152 numbers of piece 0 have changed"]),
    ("denormals that are flushed going forward", Node(MATMUL.format(FLUSHED)),
     "pytorch/denormals", ["fp16 products in forward passes lose denormals"]),
    ("denormals that are flushed going backward", Node(BACKWARD_FLUSHED),
     "pytorch/denormals", ["fp16 products in backward passes lose denormals"]),
    ("torch.compile that is switched off", Node(env={"TORCHDYNAMO_DISABLE": "1"}),
     "pytorch/compiled", ["compiled nothing", "TORCHDYNAMO_DISABLE"]),
    ("a compiled model that gives other numbers", Node(COMPILED),
     "pytorch/compiled", ["apart from PyTorch's own"]),
    ("a node with seven GPUs, one of another kind", Node(gpus=7, known=8,
        edit=(LAST_GPU, "gfx_target_version 90010", "gfx_target_version 90008")),
     "rocm/devices", ["has 7 of 8 GPUs", "GCD 7 (0000:de:00.0)", "0000:c6:00.0",
                      "is gfx908, not gfx90a"]),
    ("a GPU that a variable hides", Node(env={"HIP_VISIBLE_DEVICES": "0"}),
     "pytorch/devices", ["PyTorch sees 1 GPUs, and the kernel shows 2", "HIP_VISIBLE_DEVICES=0"]),
    ("a driver that does not serve the image's ROCm", Node(module="6.16.6"),
     "rocm/driver", ["amdgpu 6.16.6 is the driver of ROCm 7.1", "has ROCm 6.4.4"]),
    ("ranks on the CCD of each other's GPU", Node(MASK),
     "pytorch/ranks", ["rank 0 on", "rank 1 on", "runs on cores", "another CCD"]),
    ("two ranks on one GPU, whose interface is down",
     Node(SAME_GPU, edit=("sys/class/net/hsn0/operstate", "up", "down")),
     "pytorch/ranks", ["ranks 0, 1 on", "the same GPU: 0000:c1:00.0",
                       "hsn0, next to its GPU 0000:c1:00.0, is down"]),
    ("collectives that give one rank's numbers, another order, nothing, and their input",
     Node(COLLECTIVES), "pytorch/collectives",
     ["all_reduce of", "all_gather of", "reduce_scatter of", "all_to_all of", "in the place of"]),
    ("a second process group that hangs", Node(HANGS, changes={"timeout_seconds": 60}),
     "pytorch/new_group",
     ["not finished after 60 s", "in _new_process_group_helper", "rank 1 is in"]),
    ("sockets, TCP, no plugin, and rings without trees", Node(rccl(BAD_LOG, files=(RCCL,))),
     "pytorch/network",
     ["does not say 'Connected all trees'", "goes through sockets", "nmn0", "the provider tcp, not",
      "finds no network plugin", "librccl-net.so", "has mapped no network plugin"]),
    ("the wheel's own RCCL beside the image's, without trees",
     Node(rccl(BAD_LOG, files=(RCCL, OWN_RCCL)), binds={Path("/bin/true"): OWN_RCCL}),
     "pytorch/rccl_files",
     ["RCCL 2 times", OWN_RCCL, "not the image's RCCL", "does not say 'Connected all trees'"]),
    ("links within a node that are slow", Node(SLOW_LINKS),
     "pytorch/bandwidth_in_node", ["all_reduce_128MiB is", "less than 118.75 GB/s"]),
    ("links between nodes that are slow", Node(TWO_NODES + SLOW_LINKS, known=1),
     "pytorch/bandwidth_across_nodes", ["less than 80.75 GB/s", "rccl_test.py"]),
    ("links to the third of three nodes that are slow",
     Node(TWO_NODES + SLOW_LINKS + SLOW_THIRD_NODE, gpus=3, known=1,
          changes={"thresholds": {"all_reduce_128MiB": LOW}}),
     "pytorch/bandwidth_across_nodes", ["all_reduce_128MiB is", "less than 1 GB/s"]),
    ("a rank that computes another number", Node(BIT),
     "pytorch/ddp", ["hold other parameters than the rest: 1"]),
    ("gradients that are not averaged", Node(MEAN),
     "pytorch/ddp", ["apart from the result of training on one rank"]),
    ("convolutions that are wrong, and a cache of MIOpen that is broken",
     Node(CONVOLUTION + BROKEN_CACHE), "pytorch/miopen",
     ["a convolution of 16 channels, 28x28 with 3x3", "gfx90a6e.HIP.3_4_0_.ufdb.db is broken"]),
    ("MIOpen's cache in the home folder", Node(NO_CACHE),
     "pytorch/miopen", ["MIOPEN_USER_DB_PATH is not set"]),
    ("a GPU that is slow", Node(),
     "pytorch/training_speed", ["training is", "less than 86.45 TFLOP/s"]),
    ("gradients that are not numbers", Node(NOT_A_NUMBER),
     "pytorch/training_speed", ["the gradients are of the norm nan"]),
    ("gradients of two nodes that are not numbers", Node(TWO_NODES + NOT_A_NUMBER),
     "pytorch/weak_scaling", ["gradients are not finite"]),
    ("an attention that is wrong backward, has no kernel, and sees what is to come",
     Node(env={"FAULT": "backward, kernel, causal"}), "flash-attention/attention",
     ["heads of 64, float16: the gradient of k", "heads of 256, bfloat16", "no kernel image",
      "heads of 32, float16, causal: the result"]),
    ("an Adam that decays nothing, a Lion that is none, and ops for waves of 32 threads",
     Node(WAVES_OF_32.format(part=2) + ADAM + LION, ON_CPU, parameters={"deepspeed": WRONG_OPS}),
     "deepspeed/fused_ops",
     ["FUSED_ADAM: after 10 steps", "CPU_LION: after 10 steps", "QUANTIZER:", "do not come back",
      "RANDOM_LTD:", "sorted"]),
    ("ZeRO 2 with another learning rate", Node(RATE, ON_CPU),
     "deepspeed/zero", ["ZeRO 2 trains to parameters"]),
    ("a Horovod that adds in place of averaging", Node(HOROVOD_SUMS),
     "horovod/allreduce", ["the average of float32 over 2 ranks"]),
    ("a Horovod whose ranks do not meet", Node(HOROVOD_ALONE),
     "horovod/allreduce", ["MPI did not find the other ranks"]),
    ("an all_reduce_perf with wrong numbers, whose ranks do not meet",
     Node(env={"FAULT": "wrong, alone"}), "rccl-tests/all_reduce_perf",
     ["Out of bounds values : 7 FAILED", "it ran on 1 of 2 ranks", "--mpi=pmi2"]),
    ("an all_reduce_perf that is slow with large messages", Node(env={"FAULT": "slow"}),
     "rccl-tests/all_reduce_perf", ["largest_sizes is 31.5 GB/s, less than 60 GB/s"]),
    ("a slow link between two GCDs", Node(env={"FAULT": "slow"}),
     "osu/bandwidth_in_node", ["gcd_0_1_64MiB is 2.3e+04 MB/s, less than 50000 MB/s"]),
    ("an osu_bw that measures nothing", Node(env={"FAULT": "silent"}),
     "osu/bandwidth_in_node", ["between GCD 0 and 1 prints nothing for 1MiB"]),
    ("an interface that is slow", Node(TWO_NODES, env={"FAULT": "slow"}),
     "osu/bandwidth_across_nodes", ["osu_bw_1MiB is 2.3e+04 MB/s, less than 23750"]),
]  # fmt: skip
NOT_KNOWN = [
    ("the driver of ROCm 6.0, whose number looks like 6.3", Node(module="6.3.6"),
     "rocm/driver", ["known for driver 6.3 only", "amdgpu 6.3.6, of ROCm 6.0"]),
    ("a driver that nobody knows", Node(module="9.9.9"),
     "rocm/driver", ["not known which ROCm amdgpu 9.9.9 came with"]),
    ("half a node", Node(SLOW_LINKS, known=4),
     "pytorch/bandwidth_in_node", ["of whole nodes, and 2 of 4 GPUs have a rank"]),
    ("half of two nodes", Node(TWO_NODES + SLOW_LINKS),
     "pytorch/bandwidth_across_nodes", ["of whole nodes, and 1 of 2 GPUs have a rank"]),
    ("half a node with osu_bw", Node(known=4),
     "osu/bandwidth_in_node", ["GCDs by their numbers on the node, and 2 of 4 are"]),
    ("ops that nothing is compared with",
     Node(env=ON_CPU, parameters={"deepspeed": {"DS_BUILD_FUSED_LAMB": True}}),
     "deepspeed/fused_ops", ["none of the ops", "DS_BUILD_FUSED_LAMB"]),
]  # fmt: skip


def run(image: Path, folder: Path, node: Node, *names: str) -> dict[str, dict[str, Any]]:
    """Run checks on a node where stand-ins and an RCCL with its plugin are added to the image."""
    libraries = folder / "rocm"
    libraries.mkdir()
    for path in (RCCL, PLUGIN):
        (libraries / Path(path).name).write_bytes(b"\x7fELF")
    binds = {HERE / name: at for name, at in STAND_INS.items()}
    binds = {**binds, libraries: "/opt/rocm/lib", **node.binds}
    env = {"PYTHONPATH": "/faults:/stand-in-flash-attention", **node.env}
    return gpu.verify(image, folder, replace(node, env=env, binds=binds), *names)


@pytest.mark.parametrize(("node", "names"), [pytest.param(*row, id=name) for name, *row in WELL])
def test_checks_pass_where_all_is_well(
    image: Path, tmp_path: Path, node: Node, names: list[str]
) -> None:
    rows = run(image, tmp_path, node, *names)
    assert {name: (row["state"], row["reason"]) for name, row in rows.items()} == dict.fromkeys(
        names, ("passed", "")
    )
    for name, row in rows.items():
        if not name.startswith(("rocm/", "osu/", "rccl-tests/")):
            assert row["facts"]["ran_on"] == "the CPU, for LUMI_VERIFY_DEVICE=cpu"


@pytest.mark.parametrize(
    ("state", "node", "check", "reasons"),
    [
        pytest.param(state, *row, id=name)
        for state, rows in (("failed", FAULTS), ("skipped", NOT_KNOWN))
        for name, *row in rows
    ],
)
def test_a_check_catches(
    image: Path, tmp_path: Path, state: str, node: Node, check: str, reasons: list[str]
) -> None:
    row = run(image, tmp_path, node, check)[check]
    assert row["state"] == state, row
    for reason in reasons:
        assert reason in row["reason"], row["reason"]
