# /// check
# summary: PyTorch sees each GPU that the kernel's driver shows, and each of them computes
# level: full
# runs: node
# timeout_seconds: 120
# needs: {gpus: 1}
# hint: >-
#   unset HIP_VISIBLE_DEVICES, CUDA_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES, or set one of them
#   alone
# ///

import os
from types import SimpleNamespace

import _gpu as gpu
import torch
from lumi_inside.checking import failed, note, skipped
from lumi_inside.node.hardware import Node
from lumi_inside.rank.gpus import Visible

node = Node()
shown = node.gpus()
if not shown:
    skipped("the kernel shows no GPU of AMD's, so there is nothing to compare with")
devices = gpu.devices()
# On the CPU there is only what the variables would leave.
left = Visible(SimpleNamespace(env=os.environ, node=node)).by_hip
found = torch.cuda.device_count() if devices[0].type == "cuda" else len(left)
note("gpus", {"kernel": [each.pci for each in shown], "PyTorch": found})
problems = []
if found != len(shown):
    names = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    set_to = " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
    how = set_to or "no variable hides any"
    problems.append(f"PyTorch sees {found} GPUs, and the kernel shows {len(shown)} ({how})")
for on in devices:
    total = torch.arange(1000, device=on).sum().item()
    if total != 499500:
        problems.append(f"{on} adds 0 to 999 up to {total}")
if problems:
    failed(*problems)
