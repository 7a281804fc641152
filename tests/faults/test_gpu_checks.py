"""Each check for GPUs passes where all is well, and fails for just what it guards against.

The real scripts run in the real image's files, on the CPU (see ``gpu``). Faults that one check
reports together are in one container: each reason of a row belongs to one fault.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .gpu_worlds import (
    ADAM,
    BACKWARD_FLUSHED,
    BAD_LOG,
    BIT,
    BROKEN_CACHE,
    COLLECTIVES,
    COMPILED,
    COMPILED_WITHOUT_CXX,
    CONVOLUTION,
    FLUSHED,
    HANGS,
    HOROVOD_ALONE,
    HOROVOD_OF_MANY,
    HOROVOD_SUMS,
    LAST_GPU,
    LION,
    LOW,
    MASK,
    MATMUL,
    MEAN,
    NO_CACHE,
    NO_GPU_OPS,
    NOT_A_NUMBER,
    ON_CPU,
    OWN_RCCL,
    RATE,
    RCCL,
    REAL_GPU,
    SAME_GPU,
    SLOW_LINKS,
    SLOW_THIRD_NODE,
    STAND_IN_OPS,
    TWO_NODES,
    WAVES_OF_32,
    WRONG_OPS,
    World,
    edited,
    rccl,
    run,
)

WELL = [
    ("all on the CPU", World(COMPILED_WITHOUT_CXX), [
        "rocm/devices", "rocm/driver", "pytorch/devices", "pytorch/gemm", "pytorch/denormals",
        "pytorch/compiled", "pytorch/ranks", "pytorch/collectives", "pytorch/new_group",
        "pytorch/ddp", "pytorch/miopen", "flash-attention/attention",
        "horovod/allreduce", "rccl-tests/all_reduce_perf", "osu/bandwidth_in_node",
    ]),
    ("an RCCL that reaches other nodes", World(rccl()), ["pytorch/rccl_files", "pytorch/network"]),
    ("two nodes", World(TWO_NODES), ["pytorch/weak_scaling", "osu/bandwidth_across_nodes"]),
    ("Horovod on 400 ranks", World(HOROVOD_OF_MANY), ["horovod/allreduce"]),
    ("a GPU of any speed", World(node={"changes": {"thresholds": {}}}), ["pytorch/training_speed"]),
    ("DeepSpeed on the CPU, with ops for waves of 64 threads",
     World(WAVES_OF_32.format(part=1), ON_CPU, node={"parameters": NO_GPU_OPS | STAND_IN_OPS}),
     ["deepspeed/fused_ops", "deepspeed/zero"]),
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


FAULTS = [
    ("a variable that keeps checks from a GPU that is there", World(REAL_GPU),
     "pytorch/gemm", "failed", ["LUMI_VERIFY_DEVICE=cpu keeps it from the GPU", "unset it"]),
    ("products that are wrong, in bf16 by more", World(MATMUL.format(
        "real(one, other) * (1.05 if one.dtype == torch.bfloat16 else 1.01)")),
     "pytorch/gemm", "failed",
     ["a product in fp32", "a product in bf16", "apart from that in float64"]),
    ("denormals that are flushed going forward", World(MATMUL.format(FLUSHED)),
     "pytorch/denormals", "failed", ["fp16 products in forward passes lose denormals"]),
    ("denormals that are flushed going backward", World(BACKWARD_FLUSHED),
     "pytorch/denormals", "failed", ["fp16 products in backward passes lose denormals"]),
    ("torch.compile that is switched off", World(env={"TORCHDYNAMO_DISABLE": "1"}),
     "pytorch/compiled", "failed", ["compiled nothing", "TORCHDYNAMO_DISABLE"]),
    ("a compiled model that gives other numbers", World(COMPILED),
     "pytorch/compiled", "failed", ["apart from PyTorch's own"]),
    ("a node with seven GPUs, one of another kind", World(node={"gpus": 7, "known": 8},
        edit=edited(LAST_GPU, "gfx_target_version 90010", "gfx_target_version 90008")),
     "rocm/devices", "failed",
     ["has 7 of 8 GPUs", "GCD 7 (0000:de:00.0)", "0000:c6:00.0", "is gfx908, not gfx90a"]),
    ("a GPU that a variable hides", World(env={"HIP_VISIBLE_DEVICES": "0"}),
     "pytorch/devices", "failed", ["PyTorch sees 1 GPUs, and the kernel shows 2",
                                   "HIP_VISIBLE_DEVICES=0"]),
    ("a ROCm that is too old for the driver", World(node={"profile": "rocm-5.7.0"}),
     "rocm/driver", "failed", ["amdgpu 6.10.5 is the driver of ROCm 6.3", "has ROCm 5.7.0"]),
    ("the driver of ROCm 6.0, whose number looks like 6.3", World(node={"module": "6.3.6"}),
     "rocm/driver", "skipped", ["nothing is known", "amdgpu 6.3.6, of ROCm 6.0"]),
    ("a driver that nobody knows", World(node={"module": "9.9.9"}),
     "rocm/driver", "skipped", ["not known which ROCm amdgpu 9.9.9 came with"]),
    ("ranks on the CCD of each other's GPU", World(MASK),
     "pytorch/ranks", "failed", ["rank 0 on", "rank 1 on", "runs on cores", "another CCD"]),
    ("two ranks on one GPU, whose interface is down", World(
        SAME_GPU, edit=edited("sys/class/net/hsn0/operstate", "up", "down")),
     "pytorch/ranks", "failed",
     ["ranks 0, 1 on", "the same GPU: 0000:c1:00.0",
      "hsn0, next to its GPU 0000:c1:00.0, is down"]),
    ("collectives that give one rank's numbers, another order, nothing, and their input",
     World(COLLECTIVES), "pytorch/collectives", "failed",
     ["all_reduce of", "all_gather of", "reduce_scatter of", "all_to_all of", "in the place of"]),
    ("a second process group that hangs", World(HANGS, node={"changes": {"timeout_seconds": 25}}),
     "pytorch/new_group", "failed",
     ["not finished after 25 s", "in _new_process_group_helper", "rank 1 is in"]),
    ("sockets, TCP, no plugin, and rings without trees", World(rccl(BAD_LOG, files=(RCCL,))),
     "pytorch/network", "failed",
     ["does not say 'Connected all trees'", "goes through sockets", "nmn0", "the provider tcp, not",
      "finds no network plugin", "librccl-net.so", "has mapped no network plugin"]),
    ("the wheel's own RCCL beside the image's, without trees",
     World(rccl(BAD_LOG, files=(RCCL, OWN_RCCL)), shown={"own.so": OWN_RCCL}),
     "pytorch/rccl_files", "failed",
     ["RCCL 2 times", OWN_RCCL, "not the image's RCCL", "does not say 'Connected all trees'"]),
    ("links within a node that are slow", World(SLOW_LINKS),
     "pytorch/bandwidth_in_node", "failed", ["all_reduce_128MiB is", "less than 118.75 GB/s"]),
    ("links between nodes that are slow", World(TWO_NODES + SLOW_LINKS, node={"known": 1}),
     "pytorch/bandwidth_across_nodes", "failed", ["less than 80.75 GB/s", "rccl_test.py"]),
    ("links to the third of three nodes that are slow", World(
        TWO_NODES + SLOW_LINKS + SLOW_THIRD_NODE,
        node={"gpus": 3, "known": 1, "changes": {"thresholds": LOW}}),
     "pytorch/bandwidth_across_nodes", "failed", ["all_reduce_128MiB is", "less than 1 GB/s"]),
    ("half a node", World(SLOW_LINKS, node={"known": 4}),
     "pytorch/bandwidth_in_node", "skipped", ["of whole nodes, and 2 of 4 GPUs have a rank"]),
    ("half of two nodes", World(TWO_NODES + SLOW_LINKS),
     "pytorch/bandwidth_across_nodes", "skipped", ["of whole nodes, and 1 of 2 GPUs have a rank"]),
    ("half a node with osu_bw", World(node={"known": 4}),
     "osu/bandwidth_in_node", "skipped", ["GCDs by their numbers on the node, and 2 of 4 are"]),
    ("a rank that computes another number", World(BIT),
     "pytorch/ddp", "failed", ["hold other parameters than the rest: 1"]),
    ("gradients that are not averaged", World(MEAN),
     "pytorch/ddp", "failed", ["apart from those of training on one rank"]),
    ("convolutions that are wrong, and a cache of MIOpen that is broken",
     World(CONVOLUTION + BROKEN_CACHE), "pytorch/miopen", "failed",
     ["a convolution of 16 channels, 28x28 with 3x3", "gfx90a6e.HIP.3_4_0_.ufdb.db is broken"]),
    ("MIOpen's cache in the home folder", World(NO_CACHE),
     "pytorch/miopen", "failed", ["MIOPEN_USER_DB_PATH is not set"]),
    ("a GPU that is slow", World(),
     "pytorch/training_speed", "failed", ["training is", "less than 86.45 TFLOP/s"]),
    ("gradients that are not numbers", World(NOT_A_NUMBER),
     "pytorch/training_speed", "failed", ["the gradients are of the norm nan"]),
    ("gradients of two nodes that are not numbers", World(TWO_NODES + NOT_A_NUMBER),
     "pytorch/weak_scaling", "failed", ["gradients are not finite"]),
    ("an attention that is wrong backward, has no kernel, and sees what is to come",
     World(env={"FAULT": "backward, kernel, causal"}), "flash-attention/attention", "failed",
     ["heads of 64, float16: the gradient of k", "heads of 256, bfloat16", "no kernel image",
      "heads of 32, float16, causal: the result"]),
    ("an Adam that decays nothing, a Lion that is none, and ops for waves of 32 threads",
     World(WAVES_OF_32.format(part=2) + ADAM + LION, ON_CPU, node={"parameters": WRONG_OPS}),
     "deepspeed/fused_ops", "failed",
     ["FUSED_ADAM: after 10 steps", "CPU_LION: after 10 steps", "QUANTIZER:", "do not come back",
      "RANDOM_LTD:", "sorted"]),
    ("ops that nothing is compared with",
     World(env=ON_CPU, node={"parameters": {"DS_BUILD_FUSED_LAMB": True}}),
     "deepspeed/fused_ops", "skipped", ["none of the ops", "DS_BUILD_FUSED_LAMB"]),
    ("ZeRO 2 with another learning rate", World(RATE, ON_CPU),
     "deepspeed/zero", "failed", ["ZeRO 2 trains to parameters"]),
    ("a Horovod that adds in place of averaging", World(HOROVOD_SUMS),
     "horovod/allreduce", "failed", ["the average of float32 over 2 ranks"]),
    ("a Horovod whose ranks do not meet", World(HOROVOD_ALONE),
     "horovod/allreduce", "failed", ["MPI did not find the other ranks"]),
    ("an all_reduce_perf with wrong numbers, whose ranks do not meet",
     World(env={"FAULT": "wrong, alone"}), "rccl-tests/all_reduce_perf", "failed",
     ["Out of bounds values : 7 FAILED", "it ran on 1 of 2 ranks", "--mpi=pmi2"]),
    ("an all_reduce_perf that is slow with large messages", World(env={"FAULT": "slow"}),
     "rccl-tests/all_reduce_perf", "failed", ["largest_sizes is 31.5 GB/s, less than 60 GB/s"]),
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
