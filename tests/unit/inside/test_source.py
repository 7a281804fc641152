"""Code that is baked into images fits there: old Pythons, a definition's text, a quick start."""

import ast
import shutil
import sys
from pathlib import Path

import pytest

from lumicontainer.core.apptainer_syntax import hazard
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.records import platform_tables

from . import seen
from .conftest import SOURCE, lay_out, run

pytestmark = pytest.mark.slow

FILES = [SOURCE / "lumi-entry", SOURCE / "lumi-verify", *sorted(SOURCE.rglob("*.py"))]
PUBLIC = {name for name in sys.stdlib_module_names if not name.startswith("_")}
ALL = (
    *("--affinity-report", "--smi", "--preflight", "--remove-caches", "--gpu-visibility", "hip"),
    *("--no-bind", "--allow-gpu-sharing"),
)
every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))


def imports(file: Path) -> list[ast.Import | ast.ImportFrom]:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    return [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


@every_file
def test_a_file_is_python_3_9_and_imports_public_standard_modules(file: Path) -> None:
    for node in imports(file):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [str(node.module)] if node.level == 0 else []
        modules = {name.partition(".")[0] for name in names}
        assert modules <= PUBLIC | {"__future__", "lumi_inside"}, ast.unparse(node)


@every_file
def test_a_file_can_stand_in_a_definition(file: Path) -> None:
    assert not hazard(file.read_text())


FLOORS = {"entry": 5, "verify": 5, "rank": 4, "launch": 3, "image": 2, "elf": 1, "node": 1}
"""Packages import lower ones only; modules of the root are on floor 0."""


@every_file
def test_imports_point_down(file: Path) -> None:
    packages = file.relative_to(SOURCE).parts[:-1]
    floor = FLOORS[packages[0]] if packages else 0
    assert "TYPE_CHECKING" not in file.read_text()
    for node in imports(file):
        if isinstance(node, ast.ImportFrom) and node.level > len(packages):
            first = (node.module or node.names[0].name).partition(".")[0]
            assert not (SOURCE / first).is_dir() or FLOORS[first] < floor, ast.unparse(node)


def pythons() -> list[str]:
    """Return this Python, and all others on PATH that an image may have and that start."""
    programs = {sys.executable: None}
    for name in (f"python3.{minor}" for minor in range(9, 20)):
        if path := shutil.which(name):
            done = run(path, "-c", "import sys; print(sys.executable)")
            programs.update({done.stdout.strip(): None} if done.returncode == 0 else {})
    return list(programs)


@pytest.mark.parametrize("python", pythons())
def test_it_starts_under_every_python_of_this_machine(tmp_path: Path, python: str) -> None:
    platform = {"name": "lumi-g", **platform_tables(open_catalog().platform("lumi-g"))}
    place = lay_out(tmp_path / "image", platform)
    program, logs = tmp_path / "rank.py", tmp_path / "logs"
    program.write_text("import os, sys; print(sys.executable, os.environ['RANK'])")
    words = (python, "-I", "-S", "-B", place, *ALL, "--log-dir", logs, program)
    done = run(*words, env={"TMPDIR": str(tmp_path), **seen.srun(1)})
    assert done.returncode == 0, done.stderr
    assert (logs / "1.0-rank1.out").read_text() == f"{python} 1\n"
