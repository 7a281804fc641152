"""lumi-entry runs programs under the Python of the virtual environment that is active."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import PATH, Entry, lay_out
from .test_main import script


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    path = tmp_path / "own-venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    return path


@pytest.fixture
def baked(tmp_path: Path) -> Entry:
    """Run lumi-entry as the last step of a build leaves it: by the image's Python, by its path."""
    program = lay_out(tmp_path / "image").resolve()
    _, rest = program.read_text().split("\n", 1)
    program.write_text(f"#!{sys.executable} -ISB\n{rest}")

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [os.fspath(program), *words]
        own = {"PATH": PATH, **env}
        return subprocess.run(
            command, env=own, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


def activated(venv: Path) -> dict[str, str]:
    return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{PATH}"}


@pytest.mark.parametrize("words", [["where.py"], ["-m", "where"]], ids=["script", "module"])
def test_a_program_runs_under_the_python_of_the_active_virtual_environment(
    baked: Entry, tmp_path: Path, venv: Path, words: list[str]
) -> None:
    (tmp_path / "where.py").write_text("import sys; print(sys.prefix)")
    done = baked(*words, **activated(venv))
    assert done.stdout == f"{venv}\n", done.stderr
    assert baked("--print-env", **activated(venv)).stdout.splitlines()[2] == (
        f"python: {venv}/bin/python3 (of the active VIRTUAL_ENV)"
    )


AGENT = """
import os, sys
words = sys.argv[sys.argv.index("--") + 1 :]
os.environ.update(TORCHELASTIC_RUN_ID="x", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
os.execv(words[0], words)
"""
"""Starts one rank, as torchrun does."""


def test_ranks_that_a_launcher_makes_run_under_it_too(
    baked: Entry, tmp_path: Path, venv: Path
) -> None:
    agent = tmp_path / "torch/distributed/run.py"
    agent.parent.mkdir(parents=True)
    agent.write_text(AGENT)
    program = script(tmp_path, "import sys; print(sys.prefix)")
    words = ("--launcher", "torchrun", "--nproc", "1", program)
    done = baked(*words, **activated(venv), PYTHONPATH=str(tmp_path))
    assert done.stdout == f"{venv}\n", done.stderr


def test_an_active_environment_that_was_made_elsewhere_is_reported_and_the_images_python_runs(
    baked: Entry, tmp_path: Path, venv: Path
) -> None:
    for name in ("python", "python3"):
        (venv / "bin" / name).unlink()
        (venv / "bin" / name).symlink_to("/opt/of-the-host/bin/python3")
    program = script(tmp_path, "import sys; print(sys.prefix)")
    done = baked(program, **activated(venv))
    assert done.stdout == f"{sys.prefix}\n"
    assert done.stderr.startswith(f"warning: VIRTUAL_ENV={venv} is active, but its python3 cannot")
    assert len(done.stderr.splitlines()) == 1


def test_a_virtual_environment_of_the_host_that_is_not_on_path_is_not_active(
    baked: Entry, tmp_path: Path, venv: Path
) -> None:
    program = script(tmp_path, "import sys; print(sys.prefix)")
    done = baked(program, VIRTUAL_ENV=str(venv))
    assert done.stdout == f"{sys.prefix}\n", done.stderr
