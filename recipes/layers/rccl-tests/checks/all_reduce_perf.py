# /// check
# summary: >-
#   all_reduce_perf of rccl-tests gives right numbers on all ranks, as fast as on LUMI's other
#   images
# level: perf
# runs: ranks
# timeout_seconds: 600
# needs: {gpus: 2, tasks: 2, mpi: true}
# thresholds:
#   largest_sizes:
#     unit: GB/s
#     minimum: 60
#     architecture: gfx90a
#     source: >-
#       AMD's LUMI containers (sfantao/LUMI-containers), RecipesDocker/pytorch/*.test: each of the
#       last five sizes, half
#   in_node_128MiB:
#     unit: GB/s
#     minimum: 118.75
#     reference: 125
#     architecture: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/ai-guide/check_ddp_visualtransformer.py: 8 GCDs, half, -5 %
#   two_nodes_128MiB:
#     unit: GB/s
#     minimum: 80.75
#     reference: 85
#     architecture: gfx90a
#     source: >-
#       lumi-reframe-tests, checks/microbenchmarks/gpu/rccl_test.py: 16 GCDs, half, -5 %
# hint: >-
#   look at rccl-plugin/interface; with right numbers and a low bandwidth, at where ranks run
#   (pytorch/ranks) and at the network
# ///

import os
import subprocess
import sys

import _rccl_tests
from lumi_inside.checking import failed, measured, note, record, threshold

# As AMD's and LUMI's own tests run it.
OPTIONS = "-z 1 -b 2M -e 2048M -f 2 -g 1 -t 1 -R 1 -n 80 -w 5 -d half"
REFERENCES = {1: "in_node_128MiB", 2: "two_nodes_128MiB"}
"""The thresholds by the number of nodes."""
JUDGED = 128 << 20

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
local_size = int(os.environ["LOCAL_WORLD_SIZE"])
nodes = -(-ranks // local_size)
# MPI's process manager hands its ranks an open file, which the program needs.
done = subprocess.run(
    ["all_reduce_perf", *OPTIONS.split()],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    close_fds=False,
    text=True,
    check=False,
)
print(done.stdout, flush=True)
if rank and not done.returncode:
    sys.exit(0)
problems = [] if rank else list(_rccl_tests.problems(done.stdout, ranks))
if done.returncode:
    last = done.stdout.strip().splitlines()[-1:] or ["nothing"]
    problems.append(f"all_reduce_perf ended with exit code {done.returncode}; it says: {last[0]}")
found = _rccl_tests.rows(done.stdout)
if found:
    name = REFERENCES.get(nodes, "")
    row = threshold(name)
    reference = {"name": name, "value": row["reference"], "source": row["source"]} if row else None
    points = [[size, bandwidth] for size, bandwidth, _ in found]
    picture = {"title": f"all_reduce_perf on {ranks} GPUs", "unit": "GB/s"}
    picture["series"] = [{"name": "all_reduce, half", "points": points}]
    picture["references"] = [reference] if reference else []
    note("bandwidth", picture)
    gpus = len(record("platform.json").get("gpus", ()))
    if ranks != nodes * gpus:
        have = f"{ranks} of {nodes * gpus} GPUs have a rank"
        note("unjudged", f"limits are of whole nodes, and {have}")
    else:
        measured("largest_sizes", _rccl_tests.slowest_of_last(done.stdout))
        at = dict(point for point in points)
        if name and JUDGED in at:
            measured(name, at[JUDGED])
if problems:
    failed(*problems)
