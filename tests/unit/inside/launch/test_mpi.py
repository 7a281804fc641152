"""Ranks of MPI that could not meet are said before each trains alone."""

import json
from pathlib import Path

import pytest

from lumicontainer.inside.launch.mpi import has_mpi

from .. import seen
from ..conftest import Env, lay_out, run

WITH = {"layers": {"training": {"packages": {"python": ["torch==2.9", "mpi4py==4.1.0"]}}}}


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the lumi-entry of an image with MPI."""
    root = tmp_path_factory.mktemp("image")
    path = lay_out(root)
    (root / "opt/lumicontainer/resolved.json").write_text(json.dumps(WITH))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "warned"),
    [
        (seen.srun(0), True),
        (seen.srun(1), False),
        (seen.srun_pmi2(0), False),
        ({**seen.srun(0), **seen.step(0, "nid005001", 1, "1", 1), "SLURM_NTASKS": "1"}, False),
        ({}, False),
    ],
)
def test_rank_0_of_several_tasks_without_pmi_warns_once(
    launcher: Path, env: Env, warned: bool
) -> None:
    done = run(launcher, "--", "true", env=env)
    lines = [line for line in done.stderr.splitlines() if "srun --mpi=pmi2" in line]
    assert (done.returncode, len(lines)) == (0, int(warned)), done.stderr


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ({"mpich": {}}, True),
        ({"x": {"packages": {"apt": ["libmpich12=4.2", "git"]}}}, True),
        ({"x": {"packages": {"python": ["horovod"]}}}, True),
        ({"x": {"packages": {"python": ["mpi4pyx", "simpich"]}}}, False),
        ({"pytorch": {}}, False),
    ],
)
def test_an_image_has_mpi_by_its_layers_and_their_packages(
    layers: dict[str, object], expected: bool
) -> None:
    assert has_mpi({"layers": layers}) is expected
