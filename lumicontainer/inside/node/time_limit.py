"""Run a tool that may hang, as those of a broken driver do, within a time limit."""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def run(command: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """Return the exit code of ``command`` and all that it wrote; no code where it took longer.

    Then it is killed with all that it started. One that waits in the driver cannot be, and is left.
    Raises OSError where it does not start.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        _kill(process)
        return None, ""
    return process.returncode, output.decode(errors="replace").strip()


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, 9)
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        return
