"""What this place has of what checks need: GPUs, nodes, ranks, a network."""

from __future__ import annotations

import os

from ..launchers import NONE, recognise
from ..node import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

GPU, NETWORK, NODES, RANKS = "gpu", "network", "nodes", "ranks"
NEEDS = (GPU, NETWORK, NODES, RANKS)
"""The kinds of what can lack here; ``--require`` makes a failure of a lack."""
CXI = "cxi"
NVIDIA = "nvidia"
"""Stands for the architecture of any GPU of theirs, on which PyTorch is used in the same way."""
_NVIDIA_GPUS = "/proc/driver/nvidia/gpus"


class Place:
    """Hold what was found: the GPUs of the node, and what the launcher tells."""

    __slots__ = ("architecture", "gpus", "launched", "network", "nodes", "rank", "ranks")

    def __init__(self, env: Mapping[str, str], node: Node | None = None) -> None:
        node = node or Node()
        launch = recognise(env)
        found = [gpu.arch for gpu in node.gpus()] or [NVIDIA] * len(_listed(_NVIDIA_GPUS))
        self.gpus = len(found)
        self.architecture = found[0] if found else ""
        self.network = CXI if node.cxi_devices() else ""
        self.launched = launch.name != NONE
        self.rank = launch.fact("RANK") or 0
        self.ranks = launch.fact("WORLD_SIZE") or 1
        self.nodes = max(1, self.ranks // (launch.fact("LOCAL_WORLD_SIZE") or 1))

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
            return RANKS, f"it needs {needs['tasks']} ranks, and there are {self.ranks}"
        return None

    def _lacking_gpus(self, gpus: int, architecture: str) -> str:
        if (gpus or architecture) and not self.gpus:
            return "this machine has no GPU that its kernel's driver shows"
        if architecture and architecture != self.architecture:
            return f"it is for {architecture}, and the GPUs here are {self.architecture}"
        if gpus > self.gpus:
            return f"it needs {gpus} GPUs on a node, and there are {self.gpus}"
        return ""


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
