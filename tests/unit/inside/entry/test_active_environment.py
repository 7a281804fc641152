"""lumi-entry runs programs under the Python of the virtual environment that is active."""

import sys
from functools import partial
from pathlib import Path

import pytest

from ..conftest import PATH, Entry, lay_out, run

AGENT = """
import os, sys
words = sys.argv[sys.argv.index("--") + 1 :]
os.environ.update(TORCHELASTIC_RUN_ID="x", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
os.execv(words[0], words)
"""
"""Starts one rank, as torchrun does."""


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    path = tmp_path / "own-venv"
    assert run(sys.executable, "-m", "venv", "--without-pip", path).returncode == 0
    return path


@pytest.fixture
def activated(venv: Path) -> dict[str, str]:
    return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{PATH}"}


@pytest.fixture
def baked(tmp_path: Path) -> Entry:
    """Run lumi-entry as the last step of a build leaves it: by the image's Python, by its path."""
    program = lay_out(tmp_path / "image").resolve()
    _, rest = program.read_text().split("\n", 1)
    program.write_text(f"#!{sys.executable} -ISB\n{rest}")
    (tmp_path / "where.py").write_text("import sys; print(sys.prefix)")
    return partial(run, program, cwd=tmp_path)


@pytest.mark.parametrize("words", [["where.py"], ["-m", "where"]], ids=["script", "module"])
def test_a_program_runs_under_the_python_of_the_active_virtual_environment(
    baked: Entry, venv: Path, activated: dict[str, str], words: list[str]
) -> None:
    done = baked(*words, env=activated)
    assert done.stdout == f"{venv}\n", done.stderr
    assert baked("--print-env", env=activated).stdout.splitlines()[2] == (
        f"python: {venv}/bin/python3 (of the active VIRTUAL_ENV)"
    )


def test_ranks_that_a_launcher_makes_run_under_it_too(
    baked: Entry, tmp_path: Path, venv: Path, activated: dict[str, str]
) -> None:
    agent = tmp_path / "torch/distributed/run.py"
    agent.parent.mkdir(parents=True)
    agent.write_text(AGENT)
    words = ("--launcher", "torchrun", "--nproc", "1", "where.py")
    done = baked(*words, env={**activated, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == f"{venv}\n", done.stderr


def test_an_active_environment_that_was_made_elsewhere_is_reported_and_the_images_python_runs(
    baked: Entry, venv: Path, activated: dict[str, str]
) -> None:
    for name in ("python", "python3"):
        (venv / "bin" / name).unlink()
        (venv / "bin" / name).symlink_to("/opt/of-the-host/bin/python3")
    done = baked("where.py", env=activated)
    assert done.stdout == f"{sys.prefix}\n"
    assert done.stderr.startswith(f"warning: VIRTUAL_ENV={venv} is active, but its python3 cannot")
    assert len(done.stderr.splitlines()) == 1


def test_a_virtual_environment_of_the_host_that_is_not_on_path_is_not_active(
    baked: Entry, venv: Path
) -> None:
    done = baked("where.py", env={"VIRTUAL_ENV": str(venv)})
    assert done.stdout == f"{sys.prefix}\n", done.stderr
