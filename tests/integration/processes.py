"""Programs and jobs that tests watch, signal and cancel while they run."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..programs import run

SECONDS = 300
Env = dict[str, str]


@contextmanager
def started(
    command: Sequence[object], *, cwd: Path | None = None, env: Env | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start a command whose output is read; nothing of it runs at the end."""
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(holds: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def jobs_of(env: Env, folder: Path, form: str = "%i") -> list[str]:
    """Return the jobs that wait or run and were sent from ``folder``, which a test has alone."""
    listed = run(["squeue", "--noheader", f"--format={form} %Z"], env=env).stdout
    rows = [line.rpartition(" ") for line in listed.splitlines()]
    return [head.strip() for head, _, sent_from in rows if Path(sent_from) == folder]
