"""Find out which needs of checks this machine and this launch meet: GPUs, nodes, ranks, MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..launch.launchers import NONE, nodes, recognize
from ..launch.launchers import RANKS as _RANKS
from ..node.hardware import Node

GPU, NETWORK, NODES, RANKS, MPI = "gpu", "network", "nodes", "ranks", "mpi"
NEEDS = (GPU, NETWORK, NODES, RANKS, MPI)
"""The kinds of needs; with ``--require`` an unmet one is a failure."""
CXI = "cxi"
NVIDIA = "nvidia"
"""The architecture of any GPU of NVIDIA's; PyTorch is used in the same way on all of them."""
_NVIDIA_GPUS = "proc/driver/nvidia/gpus"

_OF_LAUNCHERS = (
    *("SLURM_", "SLURMD_", "PMI_", "PMIX_", "PALS_", "HYDI_", "OMPI_", "MPI_LOCAL"),
    "TORCHELASTIC_",
)
_OF_RANKS = (
    *(*_RANKS, "CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "LUMI_ENTRY_SET"),
)
"""With the prefixes above, all variables of launchers."""


class Place:
    """The GPUs and the network of the node, and the ranks of the launch."""

    def __init__(self, env: Mapping[str, str], node: Node | None = None) -> None:
        node = node or Node()
        launch = recognize(env)
        found = [gpu.arch for gpu in node.gpus()] or [NVIDIA] * len(node.names(_NVIDIA_GPUS))
        self.gpus = len(found)
        self.architecture = found[0] if found else ""
        self.network = CXI if node.names("sys/class/cxi") else ""
        self.launch = launch
        self.launched = launch.name != NONE
        self.rank = (launch.fact("RANK") or 0) if self.launched else 0
        self.ranks = (launch.fact("WORLD_SIZE") or 1) if self.launched else 1
        self.nodes = nodes(env, launch) or 1
        self.host = env.get("SLURMD_NODENAME") or os.uname().nodename
        self.node = str(launch.fact("NODE_RANK")) if "NODE_RANK" in launch.facts else self.host
        """Unique to this node within the launch."""
        self.mpi = any(name.startswith(("PMI_", "PMIX_", "OMPI_")) for name in env)
        """Whether the launcher lets ranks of MPI find each other."""

    def unmet_need(self, check: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return a need of a check that is not met, as one of NEEDS and in words, or None.

        Without a launcher, lumi-verify starts ranks itself.
        """
        needs: Mapping[str, Any] = check.get("needs", {})
        unmet = self._unmet_gpus(needs.get("gpus", 0), needs.get("architecture", ""))
        if unmet:
            return GPU, unmet
        if needs.get("network", self.network) != self.network:
            return NETWORK, f"there is no network device of the kind {needs['network']}"
        if needs.get("nodes", 1) > self.nodes:
            return NODES, f"it needs {needs['nodes']} nodes, but has {self.nodes}"
        if self.launched and needs.get("tasks", 1) > self.ranks:
            return RANKS, f"it needs {needs['tasks']} ranks, but has {self.ranks}"
        if self.launched and needs.get("mpi") and check.get("runs") == RANKS and not self.mpi:
            return (
                MPI,
                "ranks of MPI cannot find each other with this launcher (use srun --mpi=pmi2)",
            )
        return None

    def _unmet_gpus(self, gpus: int, architecture: str) -> str:
        if (gpus or architecture) and not self.gpus:
            return "the kernel's driver shows no GPU"
        if architecture and architecture != self.architecture:
            return f"it is for {architecture}, but the GPUs are {self.architecture}"
        if gpus > self.gpus:
            return f"it needs {gpus} GPUs a node, but has {self.gpus}"
        return ""


def alone(env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` without variables of launchers, for a process that is not a rank.

    With them MPI would wait for other ranks, and ``mpiexec`` would start its ranks by ``srun``.
    """
    return {
        name: value
        for name, value in env.items()
        if not name.startswith(_OF_LAUNCHERS) and name not in _OF_RANKS
    }
