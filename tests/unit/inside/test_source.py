"""What is baked into images fits there: old Pythons, a definition's text, a quick start."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.core.apptainer_syntax import hazard
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.records import platform_tables

from . import seen
from .conftest import PATH, SOURCE, lay_out

FILES = [SOURCE / "lumi-entry", SOURCE / "lumi-verify", *sorted(SOURCE.rglob("*.py"))]
ALL = ("--affinity-report", "--smi", "--preflight", "--remove-caches", "--gpu-visibility", "hip")


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
    assert not hazard(file.read_text())


def test_the_launcher_is_executable() -> None:
    assert os.access(SOURCE / "lumi-entry", os.X_OK)


def pythons() -> list[str]:
    """Return this Python, and all others on PATH that an image may have and that start."""
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


FLOORS = ("entry verify", "rank", "launch", "image", "elf node", "")
"""Packages, the highest first; each imports lower ones only."""


@pytest.mark.parametrize("file", FILES[2:], ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_down_and_name_public_modules(file: Path) -> None:
    here = file.relative_to(SOURCE).parts[:-1]
    lower = {name for floor in FLOORS[floor_of(here) + 1 :] for name in floor.split()}
    tree = ast.parse(file.read_text())
    assert "TYPE_CHECKING" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level > len(here):
            first = (node.module or node.names[0].name).partition(".")[0]
            assert first in lower or not (SOURCE / first).is_dir(), ast.unparse(node)
    assert not {name for name in imports(file) if name.startswith("_") and name != "__future__"}


def floor_of(package: tuple[str, ...]) -> int:
    """Return the floor of a package; modules of the root are on the lowest."""
    names = [floor.split() for floor in FLOORS]
    return next((n for n, each in enumerate(names) if package[:1] and package[0] in each), 5)
