"""What is baked into images fits there: old Pythons, a definition's text, a quick start."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.catalog import open_catalog
from lumicontainer.hazards import is_hazardous
from lumicontainer.records import platform_tables

from .conftest import PATH, SOURCE

FILES = [SOURCE / "lumi-entry", *sorted(SOURCE.glob("*.py"))]
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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_python_3_9_and_imports_the_standard_library_only(file: Path) -> None:
    assert imports(file) <= sys.stdlib_module_names | {"lumi_inside"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_can_stand_in_a_definition(file: Path) -> None:
    assert not is_hazardous(file.read_text())


def test_the_launcher_is_executable() -> None:
    assert os.access(SOURCE / "lumi-entry", os.X_OK)


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
    assert "lumi_inside.variables" in imported
    assert not imported & SLOW
