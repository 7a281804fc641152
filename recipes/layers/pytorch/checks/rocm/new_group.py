# /// check
# summary: process groups can be created and destroyed repeatedly
# level: full
# runs: ranks
# timeout_seconds: 300
# needs: {gpus: 1, tasks: 2}
# hint: >-
#   make process groups once in a program, or take --profile rocm-6.4.4 (laifs-container-recipes
#   issue 44)
# ///

# On 4 nodes (32 ranks) a second process group hung in 13 of 17 runs with LUMI AI Factory's image of
# ROCm 7.0: laifs-container-recipes issue 44. The time limit ends a hang. PyTorch 2.10 can also meet
# old keys in its store if one group has several communicators: pytorch pull request 178493.

import time

import _gpu as gpu
import torch
import torch.distributed as dist

ranks = gpu.Ranks()
# With thousands of ranks each takes many seconds.
rounds = max(3, min(20, 20 * 512 // ranks.size))
problems, taken = [], []
number = torch.empty(1024, device=ranks.device)
for turn in range(1, rounds + 1):
    print(f"making process group {turn} of {rounds}", flush=True)
    begun = time.perf_counter()
    group = dist.new_group(backend=ranks.backend, timeout=gpu.PATIENCE)
    number.fill_(ranks.rank + turn)
    dist.all_reduce(number, group=group)
    wanted = ranks.size * turn + ranks.size * (ranks.size - 1) / 2
    if not bool((number == wanted).all()):
        came = number[0].item()
        problems.append(f"all_reduce in process group {turn} gives {came:g}, not {wanted:g}")
    gpu.wait(ranks.device)
    dist.destroy_process_group(group)
    taken.append(time.perf_counter() - begun)
ranks.note("seconds_of_a_group", {"first": taken[0], "slowest": max(taken)})
ranks.conclude(problems[:4])
