"""The first commands of a newcomer work, and do nothing twice."""

import os
import re
from pathlib import Path

from ..cli.conftest import succeeded
from ..conftest import ROOT
from .conftest import run


def test_make_demo_prints_the_accuracy_and_does_none_of_it_twice(image: Path) -> None:
    assert image == ROOT / "pytorch-deepspeed.sif"
    log = ROOT / "build/demo.log"
    log.unlink(missing_ok=True)
    # What make hands to those that it starts: this is another's.
    env = {"MAKEFLAGS": "", "MAKELEVEL": "", "MFLAGS": ""}
    first = succeeded(run(["make", "demo"], cwd=ROOT, env=env))
    match = re.fullmatch(r"accuracy (0\.\d+) · 2 ranks agree · \d+\.\d s\n", first.stdout)
    assert match, first.stdout
    assert float(match[1]) >= 0.95
    trained = log.stat().st_mtime_ns
    second = run(["make", "demo"], cwd=ROOT, env=env)
    assert second.stdout == first.stdout
    assert "pytorch-deepspeed.sif is up to date" in second.stderr
    assert log.stat().st_mtime_ns == trained


def test_the_engine_is_installed_for_who_asks_and_not_for_who_became_root() -> None:
    script = ROOT / "lumicontainer/host/scripts/install-engine.sh"
    done = succeeded(run([script], env={"SUDO_USER": "nobody"}))
    assert "nothing to do: " in done.stderr


def test_a_virtual_environment_that_was_cut_short_is_replaced(tmp_path: Path) -> None:
    project = '[project]\nname = "x"\nversion = "0"\noptional-dependencies = {dev = []}\n'
    build = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    packages = '[tool.hatch.build.targets.wheel]\npackages = ["lumicontainer"]\n'
    (tmp_path / "pyproject.toml").write_text(project + build + packages)
    (tmp_path / "lumicontainer").mkdir()
    (tmp_path / "lumicontainer/__init__.py").touch()
    folder = tmp_path / "venv"
    assert run(["python3", "-m", "venv", "--without-pip", folder]).returncode == 0
    script = ROOT / "lumicontainer/host/scripts/make-venv.sh"
    succeeded(run([script, folder, "python3"], cwd=tmp_path))
    assert run([folder / "bin/python", "-c", "import lumicontainer"], cwd="/").returncode == 0
    assert os.access(folder / "bin/pip", os.X_OK)
