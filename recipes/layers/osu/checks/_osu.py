"""Functions for checks by osu_bw: run it between two GCDs, and read its output."""

import os
import re
import subprocess

from lumi_inside.checking import parameters, skipped

PROGRAM = "/usr/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_bw"
MIB = 1 << 20
SIZES = {"1MiB": MIB, "64MiB": 64 * MIB}
"""The sizes of messages of which there are references."""
FIRST, SECOND = (0, 1), range(8)
"""The GCDs of the ranks 0 and 1, as in laifs-container-tests, jobs/mpi-*-osu_bw.yaml."""
_OF_ANOTHER = ("SLURM_", "PMI_", "PMIX_", "MPI_")
"""Variables of the launcher that started this process: mpiexec would take them for its own."""


def stopped():
    """Leave the check out where mpiexec of the image cannot start ranks."""
    if parameters("mpich").get("provider") == "host":
        skipped("the image's MPI is the host's, whose ranks srun alone can start")


def parse(text):
    """Return the bandwidths that osu_bw prints, MB/s by the size of the message in bytes."""
    rows = re.findall(r"(?m)^\s*(\d+)\s+(\d+(?:\.\d+)?)(?:\s|$)", text)
    return {int(size): float(value) for size, value in rows}


def words(first, second):
    """Return the command for mpiexec: osu_bw on two GCDs, from device to device."""
    sizes = f"{min(SIZES.values())}:{max(SIZES.values())}"
    program = [PROGRAM, "--message-size", sizes, "D", "D"]
    return [
        *("-n", "1", "env", f"ROCR_VISIBLE_DEVICES={first}", *program),
        *(":", "-n", "1", "env", f"ROCR_VISIBLE_DEVICES={second}", *program),
    ]


def environment():
    """Return the environment of mpiexec: this process's, without its launcher's variables."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OF_ANOTHER)}
    hidden = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    return {name: value for name, value in own.items() if name not in hidden}


def wrong(found, first, second, output):
    """Yield what osu_bw did not measure between two GCDs, with the end of what it said."""
    missing = [name for name, size in SIZES.items() if size not in found]
    if missing:
        last = output.strip().splitlines()[-1:] or ["nothing"]
        yield f"osu_bw between GCD {first} and {second} prints nothing for {missing[0]}: {last[0]}"


def run(command, seconds):
    """Run a command to its end; return its output, even if it failed."""
    try:
        done = subprocess.run(
            command,
            env=environment(),
            timeout=seconds,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it was not done after {seconds} s"
    return done.stdout


def picture(title, found, name, row):
    """Return a picture: a line for each pair of GCDs, and one reference, in GB/s."""
    series = [
        {
            "name": f"GCD {first}-{second}",
            "points": [[size, round(value / 1000, 3)] for size, value in sorted(values.items())],
        }
        for (first, second), values in found.items()
        if values
    ]
    references = (
        [{"name": name, "value": row["minimum"] / 1000, "source": row["source"]}] if row else []
    )
    return {"title": title, "unit": "GB/s", "series": series, "references": references}
