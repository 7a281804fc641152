"""Real images, built once in a test run and shared; a missing engine is a failure, never a skip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lumicontainer.machine import engine_path

from ..conftest import ROOT

ENGINE = str(engine_path())
"""Apptainer, or SingularityCE, which has no command `apptainer`."""

SMALL = {
    "small.yaml": (
        "summary: a small image\nbase: tiny\nlayers:\n"
        '  - greet: {greeting: "it\'s $(id) `id` %post {{ x }}"}\n'
    ),
    "layers/tiny/layer.yaml": (
        "summary: Debian with Python\nbootstrap:\n"
        "  cpu: {agent: debootstrap, release: bookworm, docker: 'debian:bookworm',"
        " include: [python3]}\n"
    ),
    "layers/greet/layer.yaml": (
        "summary: says hello\nparameters:\n  greeting: {type: string, default: hello}\n"
        "environment: {GREETING_STYLE: plain}\npath: [/opt/greet/bin]\n"
    ),
    "layers/greet/install.sh": (
        "set -euo pipefail\nmkdir -p /opt/greet/bin\n"
        "printf '%s' \"$greeting\" >/opt/greet/greeting\n"
        'cat data.bin >/opt/greet/data\nenv >"$HOME/environment"\n'
    ),
    "layers/greet/checks/greeting.sh": "test -s /opt/greet/greeting\n",
}
DATA = b"\x00\xff%post\n{{ word }}\nbootstrap: x"


def run(
    command: Sequence[object],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, and return what it printed and its exit code."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def lumicontainer(*words: object, cwd: Path | None = None, env: dict[str, str] | None = None):
    """Run the command line of this checkout."""
    return run([sys.executable, "-m", "lumicontainer", *words], cwd=cwd, env=env)


def write_small(folder: Path, changes: dict[str, str] | None = None) -> Path:
    """Write the recipe ``small`` with its layers into ``folder``."""
    for name, text in {**SMALL, **(changes or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "layers/greet/data.bin").write_bytes(DATA)
    return folder


@pytest.fixture(scope="session")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a user's own recipes folder with the recipe ``small``."""
    return write_small(tmp_path_factory.mktemp("recipes"))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, recipes: Path) -> Path:
    """Build the recipe ``small`` once."""
    folder = tmp_path_factory.mktemp("small")
    done = lumicontainer("build", "small", "--recipes", recipes, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{folder / 'small.sif'}\n"
    return folder / "small.sif"


@pytest.fixture(scope="session")
def image() -> Path:
    """Return the image of the first recipe, built where it is not there or not up to date."""
    path = ROOT / "pytorch-deepspeed.sif"
    done = lumicontainer("build", "pytorch-deepspeed", "--output", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT]
    done = run(build)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("lumicontainer-*.whl"))
