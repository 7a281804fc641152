"""lumi-entry runs programs under the Python of the virtual environment that is active."""

import sys
from functools import partial
from pathlib import Path

import pytest

from ..conftest import PATH, Entry, Env, lay_out, run

pytestmark = pytest.mark.slow

AGENT = """
import os, sys
words = sys.argv[sys.argv.index("--") + 1 :]
os.environ.update(TORCHELASTIC_RUN_ID="x", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
os.execv(words[0], words)
"""
"""Starts one rank, as torchrun does."""


@pytest.fixture
def activated(tmp_path: Path) -> Env:
    """Make a virtual environment; return the variables that its activation sets."""
    venv = tmp_path / "own-venv"
    assert run(sys.executable, "-m", "venv", "--without-pip", venv).returncode == 0
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
def test_programs_run_by_the_active_python(baked: Entry, activated: Env, words: list[str]) -> None:
    done = baked(*words, env=activated)
    assert done.stdout == f"{activated['VIRTUAL_ENV']}\n", done.stderr
    assert baked("--print-env", env=activated).stdout.splitlines()[2] == (
        f"python: {activated['VIRTUAL_ENV']}/bin/python3 (of the active VIRTUAL_ENV)"
    )


def test_ranks_of_a_launcher_run_under_it(baked: Entry, tmp_path: Path, activated: Env) -> None:
    agent = tmp_path / "torch/distributed/run.py"
    agent.parent.mkdir(parents=True)
    agent.write_text(AGENT)
    words = ("--launcher", "torchrun", "--nproc", "1", "where.py")
    done = baked(*words, env={**activated, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == f"{activated['VIRTUAL_ENV']}\n", done.stderr


def test_an_environment_made_elsewhere_gets_a_warning(baked: Entry, activated: Env) -> None:
    venv = Path(activated["VIRTUAL_ENV"])
    for name in ("python", "python3"):
        (venv / "bin" / name).unlink()
        (venv / "bin" / name).symlink_to("/opt/of-the-host/bin/python3")
    done = baked("where.py", env=activated)
    assert done.stdout == f"{sys.prefix}\n"
    assert done.stderr.startswith(f"warning: VIRTUAL_ENV={venv} is active, but its python3 cannot")
    assert len(done.stderr.splitlines()) == 1


def test_an_environment_that_is_not_on_path_is_not_active(baked: Entry, activated: Env) -> None:
    done = baked("where.py", env={"VIRTUAL_ENV": activated["VIRTUAL_ENV"]})
    assert done.stdout == f"{sys.prefix}\n", done.stderr
