"""``lumicontainer top`` says why it cannot look at a job."""

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


def write_slurm(folder: Path, owner: str, more: str = "") -> dict[str, str]:
    """Write programs that stand for Slurm's; return the variables that name them."""
    for name, text in (("scontrol", SHOWN.format(owner=owner, more=more)), ("srun", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


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
