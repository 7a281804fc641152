"""Find the GPU of a rank: number LOCAL_RANK of those that it sees."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..environment import DEFAULT, Setting, is_number, optional_number
from ..errors import LaunchError
from ..launch.launchers import TORCHRUN
from ..node.hardware import Gpu
from .context import Context

ROCR = "ROCR_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"
JAX = "JAX_LOCAL_DEVICE_IDS"
# The GPUs of all tasks of the step on this node (gres_common_gpu_set_env in Slurm,
# src/plugins/gres/common/gres_common.c).
GRANTED = "SLURM_GPUS_ON_NODE"
OF_STEP = "SLURM_STEP_GPUS"  # the list of these


# Three filters hide GPUs, from the outside in: Slurm's cgroup; ROCR_VISIBLE_DEVICES for the runtime
# (Slurm sets it to all GPUs of the step); HIP_VISIBLE_DEVICES, or else CUDA_VISIBLE_DEVICES, for
# HIP and PyTorch. Each counts the GPUs that the outer filter leaves from 0. So the variables cannot
# all hold the number of a GPU in the node.
class Visible:
    """The GPUs that the kernel, then ROCr, then HIP shows to this rank."""

    def __init__(self, context: Context) -> None:
        env = context.env
        # The variables that are set.
        self.names = [name for name in (ROCR, HIP, CUDA) if env.get(name)]
        self.by_kernel = context.node.gpus()
        self.by_rocr = self.by_kernel
        # An empty value hides all of them (RvdFilter in ROCR-Runtime, amd_filter_device.cpp).
        if ROCR in env:
            self.by_rocr = _chosen(env[ROCR], self.by_kernel, repeats=False)
        self.by_hip = self.by_rocr
        # An empty HIP_VISIBLE_DEVICES counts as not set (Device::init in ROCm/clr, rocdevice.cpp).
        self.inner = HIP if env.get(HIP) else CUDA  # the variable that HIP reads
        if env.get(self.inner):
            self.by_hip = _chosen(env[self.inner], self.by_rocr, repeats=True)


def _chosen(text: str, gpus: list[Gpu], *, repeats: bool) -> list[Gpu]:
    """Return the GPUs of a list of indices and UUIDs, up to the first invalid entry."""
    # A repeated entry ends ROCr's list. HIP skips it (``repeats``), and accepts no blanks.
    chosen: list[Gpu] = []
    for word in text.split(","):
        gpu = _named(word if repeats else word.strip(), gpus)
        if gpu is None or (gpu in chosen and not repeats):
            break
        if gpu not in chosen:
            chosen.append(gpu)
    return chosen


def _named(word: str, gpus: list[Gpu]) -> Gpu | None:
    if is_number(word):
        return gpus[int(word)] if int(word) < len(gpus) else None
    same = [gpu for gpu in gpus if gpu.uuid.lower().startswith(word.lower())]
    return same[0] if word[:4].lower() == "gpu-" and len(same) == 1 else None


def settings(context: Context) -> Iterator[Setting]:
    """Find this rank's GPU, and decide the variables that hide the others with --gpu-visibility.

    Raises LaunchError if several ranks of this node would share a GPU.
    """
    if context.platform.get("accelerator") != "rocm":
        return
    visible = Visible(context)
    if not visible.by_hip:
        _warn_of_none(context, visible)
        return
    context.gpu = _find_gpu(context, visible)
    hidden = list(_variables(context, visible))
    yield from hidden
    yield from _device_of_jax(context, visible, alone=bool(hidden))


def _find_gpu(context: Context, visible: Visible) -> Gpu | None:
    """Return the GPU of this rank; None if it has several, or if that is unknown."""
    gpus, ranks = visible.by_hip, context.number("LOCAL_WORLD_SIZE")
    local = context.number("LOCAL_RANK") or 0
    only = gpus[0] if len(gpus) == 1 else None
    if ranks == 1:
        return only
    if _is_confined(context, visible):
        _warn_of_confined(context, len(gpus))
        return only
    if _is_selected(context, visible):
        _note_one_gpu(context, visible)
        return only
    needed = ranks or local + 1
    if len(gpus) < needed:
        if not context.options.allow_gpu_sharing:
            raise _too_few(context, visible, needed)
        context.sharers = -(-(ranks or 1) // len(gpus))
    return gpus[local % len(gpus)]


def _is_confined(context: Context, visible: Visible) -> bool:
    """Return whether Slurm hides from this task the GPUs of the other tasks of its node."""
    granted = optional_number(context.env, GRANTED) or 0
    return bool(context.node.hidden_gpus()) and len(visible.by_kernel) < granted


def _is_selected(context: Context, visible: Visible) -> bool:
    """Return whether a list selects one of several GPUs for this rank."""
    # Users' wrapper scripts do so, and Slurm with --gres-flags=allow-task-sharing.
    several = len(visible.by_kernel) > 1 and optional_number(context.env, GRANTED) not in (0, 1)
    return len(visible.by_hip) == 1 and bool(visible.names) and several


def _warn_of_confined(context: Context, count: int) -> None:
    context.warnings.append(
        f"each task sees only {_count(count)} of the {context.env[GRANTED]} on its node "
        "(--gpus-per-task, --ntasks-per-gpu): they cannot copy to each other directly, and "
        "RCCL may fail. Use --gpus-per-node instead, or add "
        "--gres-flags=allow-task-sharing (Slurm 24.05 or newer)"
    )


def _note_one_gpu(context: Context, visible: Visible) -> None:
    """Note that a rank sees one GPU: a list fixed for all ranks, or a wrapper script's choice."""
    # One rank speaks for all. A script that chooses by the local rank gives it another GPU.
    if context.number("LOCAL_RANK") != 1 or context.number("NODE_RANK"):
        return
    seen = " ".join(f"{name}={context.env[name]}" for name in visible.names)
    head = f"warning: rank {context.number('RANK')} sees one GPU, {visible.by_hip[0].pci} ({seen})"
    if visible.by_hip[0] == visible.by_kernel[0]:
        text = "the first one: if all ranks have this list, they share it"
    else:
        text = "which is number 0 to it: a program that uses number LOCAL_RANK=1 finds none"
    names = " ".join(visible.names)
    context.notes.append(f"{head}, {text} (unset {names}: each rank uses GPU number LOCAL_RANK)")


def _too_few(context: Context, visible: Visible, ranks: int) -> LaunchError:
    count, ours = len(visible.by_hip), len(visible.by_kernel)
    seen = " ".join(f"{name}={context.env[name]}" for name in visible.names)
    where = f"the node has {ours + context.node.hidden_gpus()}, this job may use {ours}"
    more = f"use --gpus-per-node={ranks}"
    if ours >= ranks:
        more = f"unset {ROCR if count == len(visible.by_rocr) else visible.inner}"
    what, start = (
        f"{ranks} ranks on this node, but they see {_count(count)}",
        f"start {count} a node",
    )
    why = "several ranks would share a GPU, and slow each other down"
    hint = f"{start} (--ntasks-per-node={count}), {more}, or permit it with --allow-gpu-sharing"
    return LaunchError(what, f"{where}; {seen}" if seen else where, why, hint, local=True)


# By default every rank sees every GPU of the job, and the program uses number LOCAL_RANK, as under
# torchrun. DDP, DeepSpeed, Horovod and Lightning do so; if a rank saw only its own GPU, they would
# ask for a device that does not exist. ``--gpu-visibility hip`` is for programs that use the first
# GPU: HIP shows one, while ROCr keeps the others for copies between GPUs. ``rocr`` hides the others
# from ROCr too. ROCr copies only to GPUs that it registers, and only newer versions register hidden
# ones (BuildTopology in ROCR-Runtime, amd_topology.cpp).
def _variables(context: Context, visible: Visible) -> Iterator[Setting]:
    gpu, choice = context.gpu, context.options.gpu_visibility
    ours = context.launch.name != TORCHRUN
    if choice != "none" and not ours and len(visible.by_hip) > 1:
        context.warnings.append(
            f"--gpu-visibility {choice} is ignored: ranks of torchrun use the GPU of their "
            "LOCAL_RANK (start one task a rank instead: srun --ntasks-per-node)"
        )
    if gpu is None or not ours or choice == "none" or len(visible.by_hip) == 1:
        return
    why = f"this rank's GPU is {gpu.pci}, "
    if choice == "rocr":
        index = visible.by_kernel.index(gpu)
        why += f"number {index} of the job's"
        yield Setting(ROCR, str(index), origin=DEFAULT, why=why)
        index, why = 0, f"{ROCR} leaves only this one"
        names = [name for name in visible.names if name != ROCR]
    else:
        index = visible.by_rocr.index(gpu)
        why += f"number {index} of those that ROCr shows"
        names = [HIP, *(name for name in visible.names if name == CUDA)]
    for name in names:
        yield Setting(name, str(index), origin=DEFAULT, why=why)


# In a step of Slurm JAX takes device SLURM_LOCALID, which does not exist if the rank sees only one;
# started by torchrun it takes all (jax/_src/clusters/cluster.py).
def _device_of_jax(context: Context, visible: Visible, *, alone: bool) -> Iterator[Setting]:
    if context.gpu is None or "jax" not in context.platform.get("layers", {}):
        return
    number = 0 if alone else visible.by_hip.index(context.gpu)
    why = f"the number of this rank's GPU, {context.gpu.pci}, among those that it sees"
    yield context.default(JAX, str(number), origin=DEFAULT, why=why)


def _warn_of_none(context: Context, visible: Visible) -> None:
    env, node = context.env, context.node
    if visible.by_rocr and ROCR in visible.names:
        name = visible.inner
        context.notes.append(
            f"warning: rank {context.number('RANK')} sees no GPU: {name}={env[name]} selects from "
            f"the {len(visible.by_rocr)} that {ROCR}={env[ROCR]} leaves, from 0. Set only one"
        )
    elif not visible.by_kernel and env.get(GRANTED):
        if not context.number("LOCAL_RANK"):
            context.notes.append(
                f"warning: no GPU: Slurm gave {env[GRANTED]}, but this process may use none of the "
                f"{node.hidden_gpus()} that /sys/class/kfd shows on {os.uname().nodename}. Are "
                "/sys and /dev/dri in the container (--rocm)? If so, the node is not fit"
            )
    elif not visible.by_kernel and node.hidden_gpus():
        context.warnings.append(
            f"no GPU: this job may use none of the {node.hidden_gpus()} of its node "
            "(use --gpus-per-node)"
        )


def _count(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
