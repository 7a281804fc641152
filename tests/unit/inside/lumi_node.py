"""Write the files in which Linux describes a LUMI-G node, and of nodes on which something is wrong.

The GCDs' places, cores and NUMA nodes are from LUMI's training materials (2day-20260422,
202-Binding): gpu_check's table and lstopo, which shows hsn2 (PCI d5) below the root of d1 and d6;
the other interfaces' places are made up after it, one for each package.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lumicontainer.inside.node.cpulist import written
from lumicontainer.inside.node.hardware import Node

BUSES = ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de")
"""PCI bus of each GCD in the order of ROCr."""
CCDS = (6, 7, 2, 3, 0, 1, 4, 5)
NICS = {"hsn0": "c5", "hsn1": "cd", "hsn2": "d5", "hsn3": "dd"}
CORES = 64
CPU_NODES = 4


def pci(bus: str) -> str:
    return f"0000:{bus}:00.0"


def row(bus: str) -> dict[str, Any]:
    first = CCDS[BUSES.index(bus)] * 8
    return {
        "pci": pci(bus),
        "cores": f"{first + 1}-{first + 7}",
        "reserved": str(first),
        "numa": first // 16,
    }


PLATFORM: Mapping[str, Any] = {
    "name": "lumi-g",
    "accelerator": "rocm",
    "gpus": [row(bus) for bus in BUSES],
    "interface_prefix": "hsn",
}


class Machine(Node):
    """Be a node with its own mask and cpuset, as the kernel treats them."""

    def __init__(
        self, root: Path, mask: Iterable[int] = range(CORES), cpuset: Iterable[int] = range(CORES)
    ) -> None:
        super().__init__(os.fspath(root))
        self.mask, self.cpuset = frozenset(mask), frozenset(cpuset)

    def affinity(self) -> frozenset[int]:
        return self.mask

    def permitted(self, cores: Iterable[int]) -> frozenset[int]:
        return self.cpuset & frozenset(cores)

    def bind(self, cores: Iterable[int]) -> None:
        self.mask = self.permitted(cores)


def write(
    root: Path,
    *,
    buses: Sequence[str] = BUSES,
    hidden: Iterable[str] = (),
    smt: bool = False,
    nics: Mapping[str, str] = NICS,
    threads: int = CORES,
    copied: bool = False,
) -> Path:
    """Write a node whose GPUs KFD shows in the order of ``buses``; a cgroup hides ``hidden``.

    Its processors are a link to files that all nodes share, or, for a container, a copy of them.
    """
    _write_gpus(root, buses, set(hidden))
    processors = root / "sys/devices/system/cpu"
    processors.parent.mkdir(parents=True)
    shared = _processors(threads, smt=smt).name
    shutil.copytree(shared, processors) if copied else processors.symlink_to(shared)
    _write_interfaces(root, nics)
    return root


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))


def _device(root: Path, bus: str, numa: int) -> Path:
    """Write a PCI device below the root that it shares with the other devices of its package."""
    bridge = {"c": "c8" if bus >= "c9" else "c0", "d": "d8" if bus >= "d9" else "d0"}[bus[0]]
    folder = root / f"sys/devices/pci0000:{bridge}/0000:{bridge}:01.1/{pci(bus)}"
    _file(folder / "numa_node", f"{numa}\n")
    _link(root / f"sys/bus/pci/devices/{pci(bus)}", folder)
    return folder


def _write_gpus(root: Path, buses: Sequence[str], hidden: set[str]) -> None:
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    for number in range(CPU_NODES):
        text = "cpu_cores_count 32\nsimd_count 0\nlocation_id 0\ndomain 0\n"
        _file(nodes / f"{number}/properties", text)
        _file(nodes / f"{number}/gpu_id", "0\n")
    for index, bus in enumerate(buses):
        _device(root, bus, CCDS[BUSES.index(bus)] // 2)
        _file(root / f"dev/dri/renderD{128 + index}", "")
        text = (
            "cpu_cores_count 0\nsimd_count 440\nvendor_id 4098\ndevice_id 29704\n"
            f"location_id {int(bus, 16) << 8}\ndomain 0\ndrm_render_minor {128 + index}\n"
            f"unique_id {int(bus, 16) << 56}\ngfx_target_version 90010\n"
        )
        folder = nodes / str(CPU_NODES + index)
        for name, value in (("properties", text), ("gpu_id", f"{4000 + index}\n")):
            if bus in hidden:
                # It can be opened and not read, as a device cgroup leaves it.
                _link(folder / name, Path("/proc/self/mem"))
            else:
                _file(folder / name, value)


@cache
def _processors(threads: int, *, smt: bool) -> TemporaryDirectory[str]:
    made = TemporaryDirectory(prefix="lumi-node-")
    folder = Path(made.name)
    count = threads * 2 if smt else threads
    _file(folder / "online", f"0-{count - 1}\n")
    _file(folder / "smt/active", f"{int(smt)}\n")
    for cpu in range(count):
        core = cpu % threads
        ccd = range(core // 8 * 8, min(core // 8 * 8 + 8, threads))
        shared = [*ccd, *(c + threads for c in ccd if smt)]
        pair = [core, core + threads] if smt else [core]
        _file(folder / f"cpu{cpu}/cache/index3/shared_cpu_list", written(shared) + "\n")
        _file(folder / f"cpu{cpu}/topology/thread_siblings_list", written(pair) + "\n")
    return made


def _write_interfaces(root: Path, nics: Mapping[str, str]) -> None:
    _file(root / "sys/class/net/nmn0/operstate", "up\n")
    for number, (name, bus) in enumerate(nics.items()):
        numa = {"c5": 3, "cd": 1, "d5": 0, "dd": 2}[bus]
        device = _device(root, bus, numa)
        _file(root / f"sys/class/net/{name}/operstate", "up\n")
        _link(root / f"sys/class/net/{name}/device", device)
        _link(root / f"sys/class/cxi/cxi{number}", device / f"cxi/cxi{number}")
