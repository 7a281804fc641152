# /// check
# summary: MPICH sends between the memories of the GPUs of a node as fast as their links allow
# level: perf
# runs: node
# timeout_seconds: 600
# needs: {gpus: 2, architecture: gfx90a}
# thresholds:
#   same_gcd_64MiB:
#     {unit: MB/s, minimum: 450000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
#   gcd_0_1_64MiB:
#     {unit: MB/s, minimum: 50000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
#   gcd_6_64MiB:
#     {unit: MB/s, minimum: 45000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
#   gcd_1_7_64MiB:
#     {unit: MB/s, minimum: 30000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
#   others_64MiB:
#     {unit: MB/s, minimum: 37000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
#   gcd_0_0_1MiB:
#     {unit: MB/s, minimum: 45000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
#   gcd_1_1_1MiB:
#     {unit: MB/s, minimum: 50000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
#   gcd_0_1_1MiB:
#     {unit: MB/s, minimum: 36000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
#   others_1MiB:
#     {unit: MB/s, minimum: 25000, architecture: gfx90a,
#      source: "laifs-container-tests, jobs/mpi-single-node-gpu-to-gpu-pt2pt-osu_bw.yaml"}
# hint: >-
#   rebuild the layers mpich and osu; MPIR_CVAR_ENABLE_GPU must be 1, and each rank's cgroup
#   hold all GPUs
# ///

# GCDs 0 and 1 are of one package; others are joined by fewer links, hence the several floors.

import _osu
from lumi_inside.checking import failed, measured, note, record, threshold
from lumi_inside.node.hardware import Node

SECONDS = 60


def kind(first, second, size):
    """Return the name of the threshold for two GCDs and a size of message."""
    pair, large = {first, second}, size == "64MiB"
    if len(pair) == 1:
        return f"same_gcd_{size}" if large else f"gcd_{first}_{second}_{size}"
    if pair == {0, 1}:
        return f"gcd_0_1_{size}"
    if large and (first, second) == (1, 7):
        return f"gcd_1_7_{size}"
    return f"gcd_6_{size}" if large and second == 6 else f"others_{size}"


_osu.stopped()
found, problems, lowest = {}, [], {}
# Without a resource manager, whose nodes mpiexec would take: these ranks are on this node.
mpiexec = ["mpiexec", "-rmk", "user", "-launcher", "fork", "-hosts", "localhost"]
gpus = len(Node().gpus())
for first in _osu.FIRST:
    for second in _osu.SECOND[:gpus]:
        said = _osu.run([*mpiexec, *_osu.words(first, second)], SECONDS)
        values = found[first, second] = _osu.parse(said)
        problems += _osu.wrong(values, first, second, said)
        for name, size in _osu.SIZES.items():
            if size in values:
                limit = kind(first, second, name)
                lowest[limit] = min(values[size], lowest.get(limit, values[size]))
                print(f"GCD {first}-{second}, {name}: {values[size]:.0f} MB/s")
limit = "others_64MiB"
note("bandwidth", _osu.picture("MPI within the node (osu_bw D D)", found, limit, threshold(limit)))
whole = len(record("platform.json").get("gpus", ()))
if gpus == whole:
    for name, value in lowest.items():
        measured(name, value)
else:
    why = f"limits are of GCDs by their numbers on the node, and {gpus} of {whole} are here"
    note("unjudged", why)
if problems:
    failed(*problems)
