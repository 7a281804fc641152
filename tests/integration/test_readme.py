"""What the README gives to a newcomer works by its words alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..conftest import ROOT
from .conftest import lumicontainer, run

README = (ROOT / "README.md").read_text()
FILE = re.compile(r"^`(mine/\S+)`:\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_recipe_and_the_layer_of_ones_own_are_built_as_they_stand_there(tmp_path: Path) -> None:
    files = dict(FILE.findall(README))
    assert len(files) == 4
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for line in ("build mine/hello.yaml", "run hello.sif -- sh -c 'cat $BANNER_FILE'"):
        assert f"$ lumicontainer {line}\n" in README
    built = lumicontainer("build", "hello", "--recipes", "mine", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    words = ("sh", "-c", "cat $BANNER_FILE")
    shown = lumicontainer("run", "hello.sif", "--", *words, cwd=tmp_path).stdout
    figlet = lumicontainer("run", "hello.sif", "--", "figlet", "it's $HOME", cwd=tmp_path).stdout
    assert shown == figlet != ""


def test_make_demo_prints_the_accuracy_and_does_none_of_it_twice(image: Path) -> None:
    assert image == ROOT / "pytorch-deepspeed.sif"
    log = ROOT / "build/demo.log"
    log.unlink(missing_ok=True)
    # What make hands to those that it starts: this is another's.
    env = {"MAKEFLAGS": "", "MAKELEVEL": "", "MFLAGS": ""}
    first = run(["make", "demo"], cwd=ROOT, env=env)
    assert first.returncode == 0, first.stderr
    found = re.fullmatch(r"accuracy (0\.\d+) · 2 ranks agree · \d+\.\d s\n", first.stdout)
    assert found, first.stdout
    assert float(found[1]) >= 0.95
    trained = log.stat().st_mtime_ns
    second = run(["make", "demo"], cwd=ROOT, env=env)
    assert second.stdout == first.stdout
    assert "pytorch-deepspeed.sif is up to date" in second.stderr
    assert log.stat().st_mtime_ns == trained


def test_the_engine_is_installed_for_who_asks_and_not_for_who_became_root() -> None:
    script = ROOT / "lumicontainer/host/install-engine.sh"
    done = run([script], env={"SUDO_USER": "nobody"})
    assert done.returncode == 0, done.stderr
    assert "nothing to do: " in done.stderr


def test_a_virtual_environment_that_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    project = '[project]\nname = "x"\nversion = "0"\noptional-dependencies = {dev = []}\n'
    build = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    packages = '[tool.hatch.build.targets.wheel]\npackages = ["lumicontainer"]\n'
    (tmp_path / "pyproject.toml").write_text(project + build + packages)
    (tmp_path / "lumicontainer").mkdir()
    (tmp_path / "lumicontainer/__init__.py").touch()
    folder = tmp_path / "venv"
    assert run(["python3", "-m", "venv", "--without-pip", folder]).returncode == 0
    script = ROOT / "lumicontainer/host/make-venv.sh"
    done = run([script, folder, "python3"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run([folder / "bin/python", "-c", "import lumicontainer"], cwd="/").returncode == 0
    assert os.access(folder / "bin/pip", os.X_OK)
