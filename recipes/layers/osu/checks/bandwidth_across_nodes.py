# /// check
# summary: >-
#   MPICH sends from GPU memory on one node to GPU memory on another as fast as an
#   interface of Slingshot
# level: perf
# runs: ranks
# timeout_seconds: 600
# needs: {gpus: 1, architecture: gfx90a, nodes: 2, tasks: 2, network: cxi}
# thresholds:
#   osu_bw_1MiB:
#     unit: MB/s
#     minimum: 23750
#     reference: 25000
#     architecture: gfx90a
#     source: >-
#       laifs-container-tests, jobs/mpi-dual-node-gpu-to-gpu-pt2pt-osu_bw.yaml: 95 % of 200 Gbit/s
#   osu_bw_64MiB:
#     unit: MB/s
#     minimum: 23750
#     reference: 25000
#     architecture: gfx90a
#     source: >-
#       laifs-container-tests, jobs/mpi-dual-node-gpu-to-gpu-pt2pt-osu_bw.yaml: 95 % of 200 Gbit/s
# hint: >-
#   look at slingshot/libfabric and mpich/built_with_hip; FI_PROVIDER must not be set to another
#   than cxi
# ///

# osu_bw is for two ranks, and this check runs on all ranks of the job: so mpiexec of the image's
# MPICH starts two of its own. Its launcher 'manual' prints how its proxies are to be started, and
# the first rank of each of the first two nodes starts one.

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import time

import _osu
from lumi_inside.checking import failed, measured, note, threshold
from lumi_inside.node.hardware import Node

LAUNCH, LAUNCHED = "HYDRA_LAUNCH: ", "HYDRA_LAUNCH_END"
SECONDS = 60
"""The time of one measurement, and that in which the nodes find each other."""


def server(port):
    """Wait for the second node, and return the connection."""
    with socket.create_server(("", port)) as listener:
        listener.settimeout(SECONDS)
        return listener.accept()[0]


def client(host, port):
    """Return the connection to the first node, which may come later."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection((host, port), SECONDS)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def proxies(process):
    """Return the commands of mpiexec's proxies, one a node."""
    found = []
    for line in process.stdout:
        if line.startswith(LAUNCH):
            found.append(shlex.split(line.removeprefix(LAUNCH)))
        if line.startswith(LAUNCHED):
            break
    return found


def lead(first, second, hosts, other):
    """Measure between two GCDs from the first node; return what osu_bw said."""
    command = ["mpiexec", "-rmk", "user", "-launcher", "manual", "-hosts", ",".join(hosts)]
    command += ["-localhost", os.environ["MASTER_ADDR"], "-ppn", "1"]
    process = subprocess.Popen(
        [*command, *_osu.words(first, second)],
        env=_osu.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    here, there = proxies(process)
    other.write(shlex.join(there) + "\n")
    other.flush()
    with subprocess.Popen(here, env=_osu.environment()) as proxy:
        try:
            return process.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return f"{process.communicate()[0]}\nit was not done after {SECONDS} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                proxy.kill()


def follow(other):
    """Start the proxies of the second node, one after the other, until there are no more."""
    for line in other:
        subprocess.run(shlex.split(line), env=_osu.environment(), timeout=2 * SECONDS, check=False)


def place():
    """Return the number of this rank's node and its number on the node."""
    number, size = int(os.environ["RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    # A launcher that does not number nodes fills them one after the other.
    return int(os.environ.get("NODE_RANK") or number // size), int(os.environ["LOCAL_RANK"])


def main():
    """Measure on the first two nodes, by the first rank of each; the others have nothing to do."""
    _osu.stopped()
    node, local = place()
    if local or node > 1:
        return
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    with client(host, port) if node else server(port) as connection:
        stream = connection.makefile("rw", encoding="utf-8")
        stream.write(f"{os.uname().nodename}\n")
        stream.flush()
        hosts = [os.uname().nodename, stream.readline().strip()]
        if hosts[0] == hosts[1]:
            failed(f"ranks that count as two nodes are both on {hosts[0]}")
        if node:
            follow(stream)
            return
        found, problems = {}, []
        gpus = len(Node().gpus())
        for first in _osu.FIRST[:gpus]:
            for second in _osu.SECOND[:gpus]:
                said = lead(first, second, hosts, stream)
                found[first, second] = _osu.parse(said)
                problems += _osu.wrong(found[first, second], first, second, said)
        stream.close()
    judged(found, problems)


def judged(found, problems):
    """Report what was measured; the slowest pair of each size counts."""
    row = threshold("osu_bw_64MiB")
    note("bandwidth", _osu.picture("MPI across nodes (osu_bw D D)", found, "osu_bw_64MiB", row))
    for name, size in _osu.SIZES.items():
        values = [each[size] for each in found.values() if size in each]
        if values:
            measured(f"osu_bw_{name}", min(values))
    if problems:
        failed(*problems)


main()
sys.exit(0)
