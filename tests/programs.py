"""Run programs as a user does."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Without it ranks on two processors wait for each other in loops, for half of their time."""


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
        env={**os.environ, **ONE_THREAD, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
