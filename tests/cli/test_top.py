"""``lumicontainer top`` shows GPUs, and says why it cannot look at a job."""

import os
from pathlib import Path

from .conftest import Run

SHOWN = """\
#!/bin/sh
echo "JobId=7 {more} JobName=x"
echo "   UserId={owner}"
echo "   JobState=RUNNING"
echo "   NumNodes=1"
"""


STAND_IN_FOR_GPUS = """\
nid1\tnode\t1048576\t524288
nid1\tgpu\t0000:c1:00.0\t97\t32212254720\t68719476736
nid1\tgpu\t0000:c6:00.0\t\t1073741824\t68719476736
nid1\tend
"""
"""Output of the probe of a node with two GPUs; the driver does not say how busy the second is."""


def write_slurm(folder: Path, owner: str, more: str = "", said: str = "") -> dict[str, str]:
    """Write programs that stand for Slurm's; return the variables that name them."""
    shown = SHOWN.format(owner=owner, more=more)
    for name, text in (("scontrol", shown), ("srun", f"#!/bin/sh\ncat <<'END'\n{said}END\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_the_use_and_the_memory_of_gpus_are_shown(lumicontainer: Run, tmp_path: Path) -> None:
    env = write_slurm(tmp_path, f"me({os.geteuid()})", said=STAND_IN_FOR_GPUS)
    done = lumicontainer("top", "7", "--once", env=env)
    assert done.returncode == 0, done.stderr
    assert "  GPUs: busy 97 - %; memory 30.0 1.0 of 64.0 GiB\n" in done.stdout


def test_a_host_without_slurm_is_named(lumicontainer: Run, tmp_path: Path) -> None:
    done = lumicontainer("top", "7", env={"PATH": str(tmp_path)})
    assert done.returncode == 3
    assert "error: this host has no Slurm" in done.stderr


def test_a_job_of_another_user_is_refused(lumicontainer: Run, tmp_path: Path) -> None:
    done = lumicontainer("top", "7", env=write_slurm(tmp_path, "somebody(54321)"))
    assert done.returncode == 2
    assert "why: it is a job of somebody" in done.stderr


def test_an_array_is_refused_with_one_of_its_jobs(lumicontainer: Run, tmp_path: Path) -> None:
    own = f"me({os.geteuid()})"
    env = write_slurm(tmp_path, own, "ArrayJobId=7 ArrayTaskId=3-5%2")
    done = lumicontainer("top", "7", env=env)
    assert done.returncode == 2
    assert "hint: name one of its jobs, such as 7_3" in done.stderr
