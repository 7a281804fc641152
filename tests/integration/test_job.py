"""``lumicontainer job`` writes batch scripts that run as they are."""

import os
import signal
from pathlib import Path

from ..conftest import ROOT
from .conftest import lumicontainer, run
from .processes import Env, await_end, submit, wait_for

TRAIN = """\
import os, tabulate
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} has {tabulate.__version__}")
"""
FOR_LUMI = """\
#!/bin/bash
#SBATCH --job-name=pytorch-deepspeed
#SBATCH --partition=standard-g
#SBATCH --account=project_465000001  # the project that pays
#SBATCH --time=01:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8  # one for each GPU
#SBATCH --gpus-per-node=8  # not per task: each rank reaches the memory of all GPUs
#SBATCH --mem=480G
set -euo pipefail

# The paths of the node that containers see.
export SINGULARITY_BIND=/var/spool/slurmd,/boot,/pfs,/scratch,/projappl,/project,/flash,/appl

# --kill-on-bad-exit=1: a rank that fails or is killed ends the others, which would wait for it
# --mpi=pmi2: MPI in the image starts through PMI2
srun --kill-on-bad-exit=1 --mpi=pmi2 \\
    singularity exec {image} \\
    lumi-entry train.py --name 'it'"'"'s $HOME'
"""


def test_a_written_job_runs_on_two_nodes_with_an_extension(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    words = ("extend", image, "tabulate==0.9.0", "-o", "mine.sqsh", "-q")
    assert lumicontainer(*words, cwd=tmp_path).returncode == 0
    options = ("--with", "mine.sqsh", "--nodes", "2", "--ntasks-per-node", "2", "--time", "5m")
    done = lumicontainer("job", *options, image, "--", "lumi-entry", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    await_end(submit(done.stdout, tmp_path, cluster, "--output=job.log"), cluster)
    printed = (tmp_path / "job.log").read_text().splitlines()
    expected = [f"rank {rank} of 4 has 0.9.0" for rank in range(4)]
    assert sorted(line for line in printed if line.startswith("rank")) == expected


def test_a_job_for_lumi_asks_for_whole_nodes_and_names_their_binds(
    image: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    options = ("--nodes", "2", "--time", "1h", "--account", "project_465000001")
    command = ("train.py", "--name", "it's $HOME")
    done = lumicontainer(
        "job", "--platform", "lumi-g", *options, image, "--", *command, cwd=tmp_path
    )
    assert done.stdout == FOR_LUMI.format(image=image)
    assert "on standard-g an hour costs 8 GPU-hours, and 1h costs 8 GPU-hours" in done.stderr


def test_the_page_about_jobs_shows_the_script_that_is_written() -> None:
    page = (ROOT / "docs/jobs.md").read_text()
    script = FOR_LUMI.format(image="/scratch/project_465000001/pytorch-deepspeed.sif")
    assert script.partition("train.py")[0] in page


RANK = r"""
import os, signal
signal.signal(signal.SIGALRM, lambda *_: os.write(1, b"outlived it\n") and os._exit(0))
signal.alarm(600)
os.write(1, b"rank of %d %s\n" % (os.getppid(), os.environb[b"SLURM_NODEID"]))
signal.pause()
"""


def test_kill_9_of_a_launcher_ends_the_ranks_of_all_nodes(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    (tmp_path / "rank.py").write_text(RANK)
    options = ("--nodes", "2", "--ntasks-per-node", "1", "--time", "5m")
    entry = ("lumi-entry", "--launcher", "torchrun", "--nproc", "2", "rank.py")
    text = lumicontainer("job", *options, image, "--", *entry, cwd=tmp_path, code=0).stdout
    log = tmp_path / "job.log"
    number = submit(text, tmp_path, cluster, f"--output={log}")
    wait_for(lambda: log.exists() and log.read_text().count("rank of ") == 4)
    lines = (line.split() for line in log.read_text().splitlines() if "rank of" in line)
    last = {int(words[-2]) for words in lines if words[-1] == "1"}
    os.kill(last.pop(), signal.SIGKILL)
    await_end(number, cluster)
    shown = run(("scontrol", "show", "job", number), env=cluster).stdout
    assert "JobState=FAILED" in shown
    assert "outlived it" not in log.read_text()
