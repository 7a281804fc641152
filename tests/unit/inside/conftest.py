"""Lay lumi-entry out as an image has it, and start it with an environment of the test's own."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lumicontainer import inside

from . import lumi_node

SOURCE = Path(inside.__file__).parent
PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"

AWAIT_SIGNAL = """
import os, signal, sys
awaited = {int(sys.argv[1])}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
print(os.getpid(), flush=True)
signal.sigwait(awaited)
sys.exit(5)
"""
"""A program of Python that prints its process id, and exits with 5 on the signal of its argument.

A shell that waits in ``read`` loses a signal that comes just before it waits.
"""

Done = subprocess.CompletedProcess[str]
Env = dict[str, str]
Entry = Callable[..., Done]


def run(*command: object, env: Mapping[str, str] | None = None, **options: Any) -> Done:
    """Run a command; ``env`` is all of its environment but PATH."""
    env = {"PATH": PATH, **(env or {})}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return lumi-entry's place in a tree like an image's: a link that lies in another folder."""
    return lay_out(tmp_path_factory.mktemp("image"))


def lay_out(root: Path, platform: dict[str, object] | None = None) -> Path:
    """Lay out lumi-entry below ``root``, with what its platform says; return its place."""
    home = root / "opt/lumicontainer"
    modules = home / "lib/lumi_inside"
    shutil.copytree(SOURCE, modules, ignore=shutil.ignore_patterns("__pycache__"))
    (home / "bin").mkdir()
    for program in ("lumi-entry", "lumi-verify"):
        (modules / program).rename(home / "bin" / program)
    link = root / "usr/local/bin/lumi-entry"
    link.parent.mkdir(parents=True)
    link.symlink_to(home / "bin/lumi-entry")
    if platform is not None:
        (home / "platform.json").write_text(json.dumps(platform))
    return link


def write_module(folder: Path, name: str, text: str) -> None:
    """Write a launcher of the test in the place of the real one's module."""
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.fixture
def entry(launcher: Path, tmp_path: Path) -> Entry:
    """Run lumi-entry in the test's folder."""
    return partial(run, launcher, cwd=tmp_path)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Write a LUMI-G node on which nothing is wrong."""
    return lumi_node.write(tmp_path)
