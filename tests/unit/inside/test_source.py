"""What is baked into images fits there: old Pythons, a definition's text, a quick start."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.records import platform_tables
from lumicontainer.core.schema.apptainer_syntax import is_hazardous

from . import seen
from .conftest import PATH, SOURCE, lay_out

FILES = [SOURCE / "lumi-entry", SOURCE / "lumi-verify", *sorted(SOURCE.rglob("*.py"))]
ALL = ("--affinity-report", "--smi", "--preflight", "--remove-caches", "--gpu-visibility", "hip")
SLOW = {"argparse", "dataclasses", "enum", "json", "re", "signal", "socket", "subprocess", "typing"}


def imports(file: Path) -> set[str]:
    """Return the first word of each absolute import."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).partition(".")[0])
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_file_is_python_3_9_and_imports_the_standard_library_only(file: Path) -> None:
    assert imports(file) <= sys.stdlib_module_names | {"lumi_inside"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_file_can_stand_in_a_definition(file: Path) -> None:
    assert not is_hazardous(file.read_text())


def test_the_launcher_is_executable() -> None:
    assert os.access(SOURCE / "lumi-entry", os.X_OK)


def pythons() -> list[str]:
    """Return this Python, and all others on PATH that an image may bring and that start."""
    found = {sys.executable: None}
    for name in (f"python3.{minor}" for minor in range(9, 20)):
        if path := shutil.which(name):
            asked = [path, "-c", "import sys; print(sys.executable)"]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            found.update({done.stdout.strip(): None} if done.returncode == 0 else {})
    return list(found)


@pytest.mark.parametrize("python", pythons())
def test_it_starts_under_every_python_of_this_machine(tmp_path: Path, python: str) -> None:
    platform = {"name": "lumi-g", **platform_tables(open_catalog().platform("lumi-g"))}
    place = lay_out(tmp_path / "image", platform)
    program, logs = tmp_path / "rank.py", tmp_path / "logs"
    program.write_text("import os, sys; print(sys.executable, os.environ['RANK'])")
    done = subprocess.run(
        [python, "-I", "-S", "-B", place, *ALL, "--log-dir", logs, program],
        env={"PATH": PATH, "TMPDIR": str(tmp_path), **seen.srun(1)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (logs / "1.0-rank1.out").read_text() == f"{python} 1\n"


@pytest.mark.parametrize("words", [["--", "true"], ["--print-env"]])
def test_a_start_imports_nothing_that_is_slow(
    launcher: Path, tmp_path: Path, words: list[str]
) -> None:
    home = shutil.copytree(launcher.resolve().parents[1], tmp_path / "home")
    platform = {"name": "lumi-g", **platform_tables(open_catalog().platform("lumi-g"))}
    (home / "platform.json").write_text(json.dumps(platform))
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-I", "-S", "-B", home / "bin/lumi-entry", *words],
        env={"PATH": PATH},
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "lumi_inside.rank.variables" in imported
    assert not imported & SLOW
