# /// check
# summary: each rank runs on the cores of the CCD next to its GPU, and knows its nearest interface
# level: full
# runs: ranks
# timeout_seconds: 180
# needs: {gpus: 1, tasks: 2, architecture: gfx90a}
# hint: >-
#   start ranks by lumi-entry, which binds them, on whole nodes (srun --exclusive
#   --gpus-per-node=8), and bind them nowhere else
# ///

# It compares PCI addresses, because indices depend on cgroups and variables. It reports
# a row for each rank with its host, GPU, cores, CCD, NUMA node and interface, as a picture.

import ctypes
import os

import _gpu as gpu
import _places
import torch
from lumi_inside.checking import record
from lumi_inside.node import cpulist
from lumi_inside.node.hardware import Node


def pci_of(on, node):
    """Return the place on PCI of the GPU that this rank computes on, as PyTorch or HIP says."""
    if on.type != "cuda":
        shown = node.gpus()
        return shown[gpu.local_rank() % len(shown)].pci
    found = torch.cuda.get_device_properties(on)
    if hasattr(found, "pci_domain_id"):  # in newer versions
        domain, bus = found.pci_domain_id, found.pci_bus_id
        return f"{domain:04x}:{bus:02x}:{found.pci_device_id:02x}.0"
    library = ctypes.CDLL("libamdhip64.so" if torch.version.hip else "libcudart.so")
    ask = library.hipDeviceGetPCIBusId if torch.version.hip else library.cudaDeviceGetPCIBusId
    text = ctypes.create_string_buffer(64)
    if ask(text, len(text), on.index):
        return ""
    return text.value.decode().lower()


def row(ranks, platform):
    """Return where this rank runs."""
    node = Node()
    pci = pci_of(ranks.device, node)
    on, known = node.affinity(), platform.get("gpus", ())
    ccd = node.ccd(min(on))
    near = node.nearest(pci, node.interfaces(platform.get("interface_prefix", "hsn")))
    return {
        "rank": ranks.rank,
        "host": os.uname().nodename,
        "pci": pci,
        "gcd": next((at for at, each in enumerate(known) if each["pci"].lower() == pci), ""),
        "cores": cpulist.written(on),
        "ccd": min(ccd) // len(ccd) if ccd else "",
        "numa": node.numa(pci),
        "nic": near.name if near else "",
        "nic_up": bool(near and near.up),
    }


ranks = gpu.Ranks()
platform = record("platform.json")
rows = ranks.gathered(row(ranks, platform))
ranks.note("ranks", rows)
found = list(_places.problems(rows, platform)) if ranks.rank == 0 else []
ranks.conclude(found)
