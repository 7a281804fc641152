"""Find out which needs of checks this machine and this launch meet: GPUs, nodes, ranks, MPI."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ..launch import mpi
from ..launch.launchers import NONE, nodes, recognize
from ..node.hardware import Node

Check = Mapping[str, Any]  # a row of the image's checks.json
Env = Mapping[str, str]
GPU, NETWORK, NODES, RANKS, MPI = "gpu", "network", "nodes", "ranks", "mpi"
# The kinds of needs; with ``--require`` an unmet one is a failure.
NEEDS = (GPU, NETWORK, NODES, RANKS, MPI)
KEY_VARIABLE = "LUMI_VERIFY_SECRET"  # see channel/keys.py

# Every variable of launchers.
_OF_LAUNCHERS = re.compile(
    r"(SLURMD?|PMIX?|PALS|HYDI|OMPI|TORCHELASTIC)_|MPI_LOCAL|LUMI_ENTRY_SET$|MASTER_(ADDR|PORT)$|"
    r"((LOCAL|NODE|GROUP|CROSS)_)?RANK$|((LOCAL_)?WORLD|CROSS|LOCAL)_SIZE$"
)


class Place:
    """The GPUs and the network of the node, and the ranks of the launch."""

    def __init__(self, env: Env, node: Node | None = None) -> None:
        node = node or Node()
        launch = recognize(env)
        # All GPUs of NVIDIA's are one architecture here: PyTorch is used in the same way on them.
        nvidia = ["nvidia"] * len(node.names("proc/driver/nvidia/gpus"))
        architectures = [gpu.arch for gpu in node.gpus()] or nvidia
        self.gpus = len(architectures)
        self.architecture = architectures[0] if architectures else ""
        self.network = "cxi" if node.names("sys/class/cxi") else ""
        self.launch = launch
        self.launched = launch.name != NONE
        self.rank = (launch.fact("RANK") or 0) if self.launched else 0
        self.ranks = (launch.fact("WORLD_SIZE") or 1) if self.launched else 1
        self.nodes = nodes(env, launch) or 1
        self.host = env.get("SLURMD_NODENAME") or os.uname().nodename
        # Unique to this node within the launch.
        self.node = str(launch.fact("NODE_RANK")) if "NODE_RANK" in launch.facts else self.host
        self.mpi = mpi.meets(env)

    def unmet_need(self, check: Check) -> tuple[str, str] | None:
        """Return a need of a check that is not met, as one of NEEDS and in words, or None.

        Without a launcher, lumi-verify starts ranks itself.
        """
        needs: Mapping[str, Any] = check.get("needs", {})
        unmet = self._unmet_gpus(needs.get("gpus", 0), needs.get("architecture", ""))
        unmet = unmet or self._unmet_gpus_of_ranks(check)
        if unmet:
            return GPU, unmet
        if needs.get("network", self.network) != self.network:
            return NETWORK, f"there is no network device of the kind {needs['network']}"
        if needs.get("nodes", 1) > self.nodes:
            return NODES, f"it needs {needs['nodes']} nodes, but has {self.nodes}"
        if self.launched and needs.get("tasks", 1) > self.ranks:
            return RANKS, f"it needs {needs['tasks']} ranks, but has {self.ranks}"
        if self.launched and needs.get("mpi") and check.get("runs") == RANKS and not self.mpi:
            return MPI, "ranks of MPI cannot meet with this launcher (use srun --mpi=pmi2)"
        return None

    def _unmet_gpus(self, gpus: int, architecture: str) -> str:
        if (gpus or architecture) and not self.gpus:
            return "the kernel's driver shows no GPU"
        if architecture and architecture != self.architecture:
            return f"it is for {architecture}, but the GPUs are {self.architecture}"
        if gpus > self.gpus:
            return f"it needs {gpus} GPUs a node, but has {self.gpus}"
        return ""

    def _unmet_gpus_of_ranks(self, check: Check) -> str:
        """Return what AMD GPUs are missing for the ranks that lumi-verify would start here.

        lumi-entry refuses ranks that share one.
        """
        needs: Mapping[str, Any] = check.get("needs", {})
        by_hand = check.get("runs") == RANKS and not self.launched
        ranks = needs.get("tasks", 1) if by_hand and needs.get("gpus") else 0
        if not self.architecture.startswith("gfx") or ranks <= self.gpus:
            return ""
        are = f"are {self.gpus}" if self.gpus > 1 else "is 1"
        return f"each of its {ranks} ranks needs a GPU, but there {are}"


def alone(env: Env) -> dict[str, str]:
    """Return ``env`` without variables of launchers, for a process that is not a rank.

    With them MPI would wait for other ranks, and ``mpiexec`` would start its ranks by ``srun``.
    """
    return {name: value for name, value in env.items() if not _OF_LAUNCHERS.match(name)}
