"""Show a container a LUMI-G node's files in place of this machine's, and its platform's record.

So the real lumi-entry of an image does all that it does there. Each GPU's CCD is one core of this
machine: ranks can be bound to those alone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.records import platform_tables

from .unit.inside import lumi_node

RECORD = "/opt/lumicontainer/platform.json"
LAYERS = {"rocm": "6.4.4", "libfabric": "1.22.0", "aws-ofi-rccl": "1.4.0"}
PLUGIN = "libfabric.so.1"
"""A library of every image; RCCL's plugin, which loads it, is in those for LUMI-G only."""
EVERY_FEATURE = (
    *("--gpu-visibility", "hip", "--allow-gpu-sharing", "--affinity-report", "--smi"),
    *("--preflight", "--remove-caches"),
)
"""All that lumi-entry does around each rank's run, but for --log-dir, which needs a folder."""


def binds(folder: Path) -> list[str]:
    """Lay the files out in ``folder``; return the engine's words that put them in their places."""
    lumi_node.write(folder, copied=True)
    for core in os.sched_getaffinity(0):
        (folder / f"sys/devices/system/cpu/cpu{core}/cache/index3/shared_cpu_list").write_text(
            str(core)
        )
    for name in ("null", "kfd"):
        (folder / "dev" / name).touch()
    (folder / "dev/shm").mkdir()
    (folder / "platform.json").write_text(json.dumps(_platform()))
    places = {"sys": "/sys", "dev": "/dev", "platform.json": RECORD}
    words = [f"{folder / name}:{place}" for name, place in places.items()]
    return [word for each in words for word in ("--bind", each)]


def task(rank: int, ranks: int, job: int) -> dict[str, str]:
    """Return the variables that Slurm sets for a task of a step that has this node alone."""
    every = {"JOB_ID": job, "STEP_ID": 0, "PROCID": rank, "LOCALID": rank, "NODEID": 0}
    step = {"NODELIST": "nid005001", "NUM_NODES": 1, "NUM_TASKS": ranks, "TASKS_PER_NODE": ranks}
    numbers = {**every, **{f"STEP_{name}": value for name, value in step.items()}}
    own = {f"SLURM_{name}": str(value) for name, value in numbers.items()}
    return {**own, "SLURM_JOB_ACCOUNT": "project_465000001", "NCCL_NET_PLUGIN": PLUGIN}


def _platform() -> dict[str, object]:
    platform = open_catalog().platform("lumi-g")
    tables = platform_tables(platform)
    cores = sorted(os.sched_getaffinity(0))
    for number, row in enumerate(tables["gpus"]):
        row["cores"] = str(cores[number % len(cores)])
        del row["reserved"]
    return {"name": platform.name, "accelerator": platform.accelerator, **tables, "layers": LAYERS}
