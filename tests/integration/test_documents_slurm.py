"""Each command and job script of the manual that needs Slurm does what it shows."""

import os
import re
from pathlib import Path

import pytest

from lumicontainer.system.files.user_cache import cache_root

from ..conftest import ROOT
from ..documents import BLOCKS, NOT_RUN, RUN_BY, Block
from ..reader import BINARY
from .conftest import check_output, run
from .processes import Env
from .test_documents import SLURM, read

JOBS = [
    block
    for blocks in BLOCKS.values()
    for block in blocks
    if block.is_job and not block.notes.keys() & {NOT_RUN, RUN_BY}
]
HERE = (
    (r"#SBATCH --(account|partition|mem)=.*\n", ""),
    (r"--gpus-per-node=\d", "--exclusive"),
    (r"--ntasks-per-node=8", "--ntasks-per-node=2"),
    (r"--nproc 8", "--nproc 2"),
    (r"SINGULARITY_BIND=\S+", "SINGULARITY_BIND=/var/tmp"),
)
"""Changes that let a script for LUMI run on two nodes without GPUs."""
SITE = (
    (
        "--platform lumi-g --on small --time 2d --account project_465000001 --jobs 16",
        "--platform workstation --on standard-g --time 20m --jobs 2",
    ),
    ("$PWD/lumicontainer", str(cache_root())),
    ("~/lumicontainer", str(ROOT)),
    ("/scratch/project_465000001/$USER", "$SITE/scratch"),
    ("/projappl/project_465000001", "$SITE/projappl"),
)
"""The names of LUMI that its page has, and what stands for each here."""
MODULE = {"BASH_FUNC_module%%": "() { :; }"}
"""LUMI's command `module`, which has nothing to load here."""


@pytest.mark.parametrize("document", SLURM, ids=lambda path: path.name)
def test_what_a_reader_pastes_on_a_cluster_works_and_prints_what_is_shown(
    document: Path, tmp_path: Path, image: Path, cluster: Env
) -> None:
    read(document, tmp_path, image, cluster)


def test_each_job_script_of_the_manual_starts_a_rank_for_each_task(
    tmp_path: Path, image: Path, cluster: Env
) -> None:
    activate = tmp_path / "projappl/lumicontainer/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"PATH={BINARY}:$PATH\n")
    folders = [site_folder(job, tmp_path, image) for job in JOBS]
    numbers = [submit(job, folder, cluster) for job, folder in zip(JOBS, folders, strict=True)]
    after = f"--dependency=afterany:{':'.join(numbers)}"
    check_output("timeout", "240s", "srun", "--ntasks=1", after, "true", env=cluster)
    for job, folder in zip(JOBS, folders, strict=True):
        logs = [folder / "out", *folder.glob("logs/*.out")]
        printed = "".join(log.read_text() for log in logs)
        ranks = sorted(re.findall(r"rank \d", printed))
        expected = 1 if "--ntasks=1\n" in job.text else 4
        assert ranks == [f"rank {n}" for n in range(expected)], (folder / "err").read_text()


def site_folder(job: Block, site: Path, image: Path) -> Path:
    """Make the folder that a job runs in, with the image and a program."""
    folder = site / f"{job.document.stem}-{job.name}"
    folder.mkdir()
    (folder / image.name).symlink_to(image)
    # One call of write: the ranks share the file, and print writes each word by itself.
    program = 'import os\nos.write(1, "rank {RANK}\\n".format(**os.environ).encode())\n'
    (folder / "train.py").write_text(program)
    return folder


def submit(job: Block, folder: Path, cluster: Env) -> str:
    """Submit a script of the manual, adapted to this cluster; return the number of the job."""
    script = job.text.replace("/projappl/project_465000001", str(folder.parent / "projappl"))
    for old, new in HERE:
        script = re.sub(old, new, script)
    (folder / job.name).write_text(script)
    # The options of `lumicontainer binds` must be enough for a script that asks for them.
    asks = "lumicontainer binds" in script
    env = {name: value for name, value in cluster.items() if not (asks and "_USERNS" in name)}
    words = ("sbatch", "--parsable", "--output=out", "--error=err", job.name)
    return check_output(*words, cwd=folder, env={**env, **MODULE}).strip()


def test_a_user_comes_from_module_load_to_a_trained_model(
    tmp_path: Path, image: Path, cluster: Env
) -> None:
    """Run what the page about LUMI says, from the installation on, with the names of this host."""
    name = "test_a_user_comes_from_module_load_to_a_trained_model"
    blocks = [each for each in BLOCKS[ROOT / "docs/lumi.md"] if each.notes.get(RUN_BY) == name]
    (tmp_path / "scratch").mkdir()
    typed = ""
    for block in blocks:
        if block.is_job:
            (tmp_path / "scratch" / block.name).write_text(here(block.text))
        else:
            typed += here(block.script) + "\n"
    env = {name: value for name, value in cluster.items() if "_USERNS" not in name}
    path = f"{BINARY}:{os.environ['PATH']}"
    done = run(["bash", "-ec", typed], env={**env, **MODULE, "PATH": path, "SITE": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^accuracy 0\.9\d+ · 4 ranks agree · .* s$", done.stdout, re.M), done.stdout
    assert "is submitted; its log: " in done.stderr
    assert (tmp_path / "scratch" / image.name).is_file()


def here(text: str) -> str:
    """Return a script of the page about LUMI for this host."""
    for old, new in SITE:
        text = text.replace(old, new)
    for pattern, new in HERE:
        text = re.sub(pattern, new, text)
    return text
