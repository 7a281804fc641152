"""Each check for GPUs passes where all is well, and fails for just what it guards against.

The real scripts run in the real image, on the CPU (see ``gpu``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..integration.conftest import ENGINE, image  # noqa: F401
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
    edit: Callable[[Path], None] = lambda root: None
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
        "pytorch/ddp", "pytorch/miopen", "pytorch/training_speed", "flash-attention/attention",
        "horovod/allreduce", "rccl-tests/all_reduce_perf", "osu/bandwidth_in_node",
    ]),
    ("an RCCL that reaches other nodes", World(rccl()), ["pytorch/rccl_files", "pytorch/network"]),
    ("half a node", World(node={"known": 4}), ["pytorch/bandwidth_in_node"]),
    ("two nodes", World(TWO_NODES), [
        "pytorch/bandwidth_across_nodes", "pytorch/weak_scaling", "osu/bandwidth_across_nodes",
    ]),
    ("DeepSpeed on the CPU", World(env=ON_CPU, node={"parameters": NO_GPU_OPS}), [
        "deepspeed/fused_ops", "deepspeed/zero",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("world", "names"), [row[1:] for row in WELL], ids=[row[0] for row in WELL]
)
def test_checks_pass_where_all_is_well(
    image: Path,  # noqa: F811
    tmp_path: Path,
    world: World,
    names: list[str],
) -> None:
    found = run(image, tmp_path, world, *names)
    assert {name: (row["state"], row["reason"]) for name, row in found.items()} == {
        name: ("passed", "") for name in names
    }
    for name, row in found.items():
        if not name.startswith(("rocm/", "osu/", "rccl-tests/")):
            assert row["told"]["ran_on"] == "the CPU, for LUMI_VERIFY_DEVICE=cpu"
