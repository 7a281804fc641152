# /// check
# summary: blocks of Llama-2-7B train in bf16 on every GPU of the node, as fast as all of it
# level: perf
# runs: node
# timeout_seconds: 600
# needs: {gpus: 1}
# thresholds:
#   training:
#     unit: TFLOP/s
#     reference: 91
#     minimum: 86.45
#     architecture: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/apps/megatron-lm/megatron.py, 5 % below: 91 a GCD on 2 nodes (88
#       on 8, 83 on 16) for all of Megatron-LM's Llama-2-7B; here are 4 blocks of it, without tensor
#       parallelism, optimizer and network, which only cost
# hint: check pytorch/gemm and at the clocks of the GPU (rocm-smi)
# ///

import math

import _blocks
import _gpu as gpu
from lumi_inside.checking import failed, measured, note

speeds, problems = [], []
for on in gpu.devices():
    stack = _blocks.Stack(on)
    taken = gpu.seconds(stack.step, on, rounds=10, warm=3)
    speeds.append(stack.operations() / taken / 1e12)
    norm = sum(each.grad.float().pow(2).sum().item() for each in stack.model.parameters()) ** 0.5
    if not math.isfinite(norm) or norm == 0:
        problems.append(f"{on}: the gradients are of the norm {norm}")
    print(f"{on}: {speeds[-1]:.4g} TFLOP/s, norm of the gradients {norm:.4g}")
measured("training", min(speeds))
note("training", {"TFLOP/s of each GPU": [round(each, 2) for each in speeds]})
if problems:
    failed(*problems)
