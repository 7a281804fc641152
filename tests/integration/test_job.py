"""``lumicontainer job`` writes batch scripts that run as they are."""

from pathlib import Path

from .conftest import lumicontainer, run
from .processes import Env

TRAIN = """\
import os, tabulate
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} has {tabulate.__version__}")
"""
FOR_LUMI = """\
#!/bin/bash
#SBATCH --job-name=pytorch-deepspeed
#SBATCH --partition=standard-g
#SBATCH --account=project_465000001
#SBATCH --time=60
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
set -euo pipefail
export SINGULARITY_BIND=/var/spool/slurmd,/boot,/pfs,/scratch,/projappl,/project,/flash,/appl
# srun reads it: MPI in the image starts through PMI2.
export SLURM_MPI_TYPE=pmi2
srun singularity exec {image} lumi-entry train.py --name 'it'"'"'s $HOME'
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
    words = ("sbatch", "--wait", "--output=job.log")
    assert run(words, cwd=tmp_path, env=cluster, stdin=done.stdout).returncode == 0
    printed = (tmp_path / "job.log").read_text().splitlines()
    wanted = [f"rank {rank} of 4 has 0.9.0" for rank in range(4)]
    assert sorted(line for line in printed if line.startswith("rank")) == wanted


def test_a_job_for_lumi_asks_for_whole_nodes_and_names_their_binds(image: Path) -> None:
    asked = ("--nodes", "2", "--time", "1h", "--partition", "standard-g")
    options = ("--platform", "lumi-g", *asked, "--account", "project_465000001")
    command = ("lumi-entry", "train.py", "--name", "it's $HOME")
    done = lumicontainer("job", *options, image, "--", *command)
    assert done.stdout == FOR_LUMI.format(image=image)
