"""Start the command line as a user does."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def lumicontainer(tmp_path: Path) -> Run:
    """Run ``lumicontainer`` with given words, by default in an empty folder."""
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(
        *words: object, cwd: Path = empty, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lumicontainer", *map(str, words)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )

    return run
