# /// check
# summary: the node has all GPUs that the platform names, each in its place on PCI and of its kind
# level: full
# runs: node
# timeout_seconds: 60
# needs: {gpus: 1, architecture: gfx90a}
# hint: >-
#   leave the node out (sbatch --exclude=NODE) and report it; lumi-entry --preflight finds such
#   nodes before ranks start
# ///

# rocminfo is not asked: in some images for LUMI it was a script that always prints eight GPUs
# (AMD's LUMI containers, common/Dockerfile.rocm-6.2.4). The kernel's own files are read.

import os

from lumi_inside.checking import failed, note, record, skipped
from lumi_inside.node.hardware import Node

node = Node()
wanted = [row["pci"].lower() for row in record("platform.json").get("gpus", ())]
if not wanted:
    skipped("the platform names no GPUs")
found = {gpu.pci.lower(): gpu for gpu in node.gpus()}
hidden = node.hidden_gpus()
note("gpus", {"found": sorted(found), "hidden by a cgroup": hidden})
host = os.uname().nodename
missing = [f"GCD {number} ({pci})" for number, pci in enumerate(wanted) if pci not in found]
problems = []
# A job with a part of a node may not look at the others, which are there all the same.
if len(missing) > hidden:
    there = len(wanted) - len(missing) + hidden
    problems.append(f"{host} has {there} of {len(wanted)} GPUs; not seen: {', '.join(missing)}")
problems += [
    f"{host} has a GPU at {pci}, and the platform lists none there"
    for pci in sorted(found.keys() - wanted)
]
problems += [
    f"the GPU at {pci} of {host} is {gpu.arch or 'of no known kind'}, not gfx90a"
    for pci, gpu in found.items()
    if gpu.arch != "gfx90a"
]
if problems:
    failed(*problems)
print(f"{len(found)} of {len(wanted)} GPUs, {hidden} hidden from this job")
