"""Read this node's GPUs, interfaces and processors, and their topology, from the kernel's files.

Each file is read once, when it is needed. A missing file is empty: a workstation has no KFD, and a
container may have no /sys.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from ..environment import is_number
from . import cpulist

_KFD = "sys/class/kfd/kfd/topology/nodes"
_PCI = "sys/bus/pci/devices"
_CPU = "sys/devices/system/cpu"


class Gpu(NamedTuple):
    """One GPU (on a MI250X: one GCD): its PCI address, architecture and UUID."""

    pci: str
    arch: str = ""
    uuid: str = ""


class Interface(NamedTuple):
    """One network interface: its name, its PCI address, and whether it is up."""

    name: str
    pci: str
    up: bool


class Node:
    """The node's hardware; ``root`` is / except in tests."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self._texts: dict[str, str] = {}

    def gpus(self) -> list[Gpu]:
        """Return the GPUs that this process may use, in ROCr's order."""
        # That is the order of KFD's nodes; nodes without SIMDs are processors (BuildTopology in
        # ROCR-Runtime, runtime/hsa-runtime/core/runtime/amd_topology.cpp).
        return self._kfd()[0]

    def hidden_gpus(self) -> int:
        """Return the number of GPUs of the node that this process may not use."""
        # With a device cgroup the folder of a GPU's node exists, but reading it gives EPERM
        # (node_show in Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c). ROCr skips such nodes,
        # and those without a render node (topology_sysfs_check_node_supported in ROCR-Runtime,
        # libhsakmt/src/topology.c), and counts the others from 0.
        return self._kfd()[1]

    def numa(self, pci: str) -> int | None:
        """Return the NUMA node of a PCI device; None if the kernel does not know it (-1)."""
        text = self.text(f"{_PCI}/{pci}/numa_node")
        return int(text) if text.isdigit() else None

    def interfaces(self, prefix: str) -> list[Interface]:
        """Return the network interfaces named ``prefix`` and a number, sorted."""
        return [
            Interface(
                name,
                os.path.basename(os.path.realpath(f"{self.root}/sys/class/net/{name}/device")),
                # Some drivers always report "unknown".
                up=self.text(f"sys/class/net/{name}/operstate") in ("up", "unknown"),
            )
            for name in self.names("sys/class/net")
            if name.startswith(prefix) and is_number(name[len(prefix) :])
        ]

    def nearest(self, pci: str, interfaces: Iterable[Interface]) -> Interface | None:
        """Return the interface below the same PCI root as a device, else of the same NUMA node."""
        # On LUMI-G an interface and the two GCDs of a MI250X are below one PCI root (lstopo in
        # LUMI's training materials, 2day-20260422/202-Binding).
        others = list(interfaces)
        for facts in (self._pci_root, self.numa):
            own = facts(pci)
            near = [each for each in others if own is not None and facts(each.pci) == own]
            if near:
                return near[0]
        return None

    def _pci_root(self, pci: str) -> str | None:
        parts = os.path.realpath(f"{self.root}/{_PCI}/{pci}").split("/")
        return next((part for part in parts if part.startswith("pci")), None)

    def ccd(self, cpu: int) -> frozenset[int]:
        """Return the processors that share the L3 cache of ``cpu``; on EPYC that is its CCD."""
        return cpulist.parse_cpus(self.text(f"{_CPU}/cpu{cpu}/cache/index3/shared_cpu_list"))

    def siblings(self, cpu: int) -> frozenset[int]:
        """Return the hardware threads of the core of ``cpu``, which includes ``cpu``."""
        siblings = self.text(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list")
        return cpulist.parse_cpus(siblings) or frozenset((cpu,))

    def affinity(self) -> frozenset[int]:
        """Return the processors that this process may run on now."""
        return frozenset(os.sched_getaffinity(0))

    def permitted(self, cpus: Iterable[int]) -> frozenset[int]:
        """Return the members of ``cpus`` to which this process can be bound."""
        # A binding by Slurm can be widened, its cgroup cannot: the kernel removes processors
        # outside the cpuset from a mask, and refuses an empty one (sched_setaffinity(2)). So this
        # sets the mask, reads it, and restores the old one. It works with each version of cgroups,
        # even if the container does not show them.
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, cpus)
            return frozenset(os.sched_getaffinity(0))
        except (OSError, ValueError):
            return frozenset()
        finally:
            os.sched_setaffinity(0, before)

    def bind(self, cpus: Iterable[int]) -> None:
        """Bind this process, and so the program that it becomes; raise OSError if refused."""
        os.sched_setaffinity(0, cpus)

    def _kfd(self) -> tuple[list[Gpu], int]:
        numbers = sorted(int(name) for name in self.names(_KFD) if name.isdigit())
        nodes = [self._properties(number) for number in numbers]
        shown = [node for node in nodes if node.get("simd_count")]
        usable = [node for node in shown if self._has_render_node(node)]
        # The properties of a hidden node cannot be read.
        return [_gpu(node) for node in usable], nodes.count({}) + len(shown) - len(usable)

    def _properties(self, number: int) -> dict[str, int]:
        rows = [row.split() for row in self.text(f"{_KFD}/{number}/properties").splitlines()]
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}

    def _has_render_node(self, node: dict[str, int]) -> bool:
        minor = node.get("drm_render_minor")
        return minor is None or os.path.exists(f"{self.root}/dev/dri/renderD{minor}")

    def text(self, path: str) -> str:
        """Return a file's text without the end of line; empty if it cannot be read."""
        if path not in self._texts:
            try:
                with open(f"{self.root}/{path}", "rb") as stream:
                    self._texts[path] = os.fsdecode(stream.read()).strip()
            except OSError:
                self._texts[path] = ""
        return self._texts[path]

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a folder; none if it cannot be read."""
        try:
            return sorted(os.listdir(f"{self.root}/{path}"))
        except OSError:
            return []


def _gpu(node: dict[str, int]) -> Gpu:
    # location_id is bus << 8 | device << 3 | function (pci_dev_id in Linux, kfd_topology.c);
    # gfx_target_version 90010 is gfx90a: 9, 0 and 10, the last two as hexadecimal digits.
    place = node.get("location_id", 0)
    bus, device, function = place >> 8 & 0xFF, place >> 3 & 0x1F, place & 7
    version = node.get("gfx_target_version", 0)
    return Gpu(
        f"{node.get('domain', 0):04x}:{bus:02x}:{device:02x}.{function}",
        arch=f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else "",
        uuid=f"GPU-{node['unique_id']:016x}" if node.get("unique_id") else "",
    )
