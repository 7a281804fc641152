"""What this place has of what checks need: GPUs, nodes, ranks, MPI, a network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..environment import is_number
from ..launch.launchers import NONE, SLURM, Launch, recognize
from ..launch.launchers import RANKS as _RANKS
from ..node.hardware import Node

GPU, NETWORK, NODES, RANKS, MPI = "gpu", "network", "nodes", "ranks", "mpi"
NEEDS = (GPU, NETWORK, NODES, RANKS, MPI)
"""The kinds of what can lack here; ``--require`` makes a failure of a lack."""
CXI = "cxi"
NVIDIA = "nvidia"
"""Stands for the architecture of any GPU of theirs, on which PyTorch is used in the same way."""
_NVIDIA_GPUS = "/proc/driver/nvidia/gpus"


_OF_LAUNCHERS = (
    *("SLURM_", "SLURMD_", "PMI_", "PMIX_", "PALS_", "HYDI_", "OMPI_", "MPI_LOCAL"),
    "TORCHELASTIC_",
)
_OF_RANKS = (
    *(*_RANKS, "CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "LUMI_ENTRY_SET"),
)
"""With what begins as above, all that tells a process of its launcher."""


class Place:
    """Hold what was found: the GPUs of the node, and what the launcher tells."""

    __slots__ = (
        *("architecture", "gpus", "host", "launch", "launched", "mpi", "network"),
        *("node", "nodes", "rank", "ranks"),
    )

    def __init__(self, env: Mapping[str, str], node: Node | None = None) -> None:
        node = node or Node()
        launch = recognize(env)
        found = [gpu.arch for gpu in node.gpus()] or [NVIDIA] * len(_listed(_NVIDIA_GPUS))
        self.gpus = len(found)
        self.architecture = found[0] if found else ""
        self.network = CXI if node.cxi_devices() else ""
        self.launch = launch
        self.launched = launch.name != NONE
        self.rank = (launch.fact("RANK") or 0) if self.launched else 0
        self.ranks = (launch.fact("WORLD_SIZE") or 1) if self.launched else 1
        self.nodes = _nodes(env, launch)
        self.host = env.get("SLURMD_NODENAME") or os.uname().nodename
        self.node = str(launch.fact("NODE_RANK")) if "NODE_RANK" in launch.facts else self.host
        """What tells this node from the others of the launcher."""
        self.mpi = any(name.startswith(("PMI_", "PMIX_", "OMPI_")) for name in env)
        """Whether the launcher offers what MPI needs to find its ranks."""

    def lacking(self, check: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return what a check lacks here, as one of NEEDS and in words; None if nothing does.

        Alone, without a launcher, lumi-verify starts ranks itself, so these do not lack then.
        """
        needs: Mapping[str, Any] = check.get("needs", {})
        lack = self._lacking_gpus(needs.get("gpus", 0), needs.get("architecture", ""))
        if lack:
            return GPU, lack
        if needs.get("network", self.network) != self.network:
            return NETWORK, f"there is no network device of the kind {needs['network']}"
        if needs.get("nodes", 1) > self.nodes:
            return NODES, f"it needs {needs['nodes']} nodes, and this is {self.nodes}"
        if self.launched and needs.get("tasks", 1) > self.ranks:
            there = "there is one" if self.ranks == 1 else f"there are {self.ranks}"
            return RANKS, f"it needs {needs['tasks']} ranks, and {there}"
        if self.launched and needs.get("mpi") and check.get("runs") == RANKS and not self.mpi:
            return MPI, "the launcher offers nothing by which ranks of MPI meet (srun --mpi=pmi2)"
        return None

    def _lacking_gpus(self, gpus: int, architecture: str) -> str:
        if (gpus or architecture) and not self.gpus:
            return "this machine has no GPU that its kernel's driver shows"
        if architecture and architecture != self.architecture:
            return f"it is for {architecture}, and the GPUs here are {self.architecture}"
        if gpus > self.gpus:
            return f"it needs {gpus} GPUs on a node, and there are {self.gpus}"
        return ""


def alone(env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` without what tells of a launcher's ranks, for a process that is none.

    MPI would wait for the others at its start, and ``mpiexec`` would start its own by ``srun``.
    """
    return {
        name: value
        for name, value in env.items()
        if not name.startswith(_OF_LAUNCHERS) and name not in _OF_RANKS
    }


def _nodes(env: Mapping[str, str], launch: Launch) -> int:
    told = env.get("SLURM_STEP_NUM_NODES") or env.get("SLURM_NNODES", "")
    if launch.name == SLURM and is_number(told):
        return int(told)
    local = launch.fact("LOCAL_WORLD_SIZE") or 1
    return max(1, -(-(launch.fact("WORLD_SIZE") or 1) // local))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
