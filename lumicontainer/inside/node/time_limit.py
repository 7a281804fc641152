"""Run a tool within a time limit; tools may hang, for example with a broken driver."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence


def run(command: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """Return the exit code of ``command`` and its output; the code is None after ``seconds``.

    Then its session is killed. A process that waits in the driver cannot be killed, and stays.
    Raises OSError if the command does not start.
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
