"""Programs and jobs that tests watch, signal and cancel while they run."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from lumicontainer.host.docker.daemon import LABEL
from lumicontainer.system.process_tree import read_start

from ..programs import run

SECONDS = 300
PATIENCE = 300
"""Seconds that processes on their way have to end."""
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


class Gate:
    """A socket that steps of a build wait at, on any node, until it is closed."""

    def __init__(self, name: str) -> None:
        address = f"gate-{name}"
        self._server = socket.socket(socket.AF_UNIX)
        self._server.settimeout(SECONDS)
        self._server.bind(f"\0{address}")
        self._server.listen()
        self._steps: list[socket.socket] = []
        connect = f'x = s.socket(s.AF_UNIX); x.connect("\\0{address}")'
        self.wait = f"python3 -c 'import socket as s; {connect}; x.recv(1)' || true"

    def await_steps(self, count: int) -> None:
        """Return when so many steps wait here at the same time."""
        self._steps += [self._server.accept()[0] for _ in range(count)]

    def close(self) -> None:
        """Let the steps that wait go on, and those that come too."""
        for each in (*self._steps, self._server):
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def until(holds: Callable[[], object], patience: float, pause: float = 0.02) -> bool:
    """Look every ``pause`` seconds until something holds; return if it did within ``patience``."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def wait_for(holds: Callable[[], object]) -> None:
    assert until(holds, SECONDS, pause=0.1)


def jobs_of(env: Env, folder: Path, form: str = "%i") -> list[str]:
    """Return the jobs that wait or run and were sent from ``folder``, which a test has alone."""
    listed = run(["squeue", "--noheader", f"--format={form} %Z"], env=env).stdout
    rows = [line.rpartition(" ") for line in listed.splitlines()]
    return [head.strip() for head, _, sent_from in rows if Path(sent_from) == folder]


def submit(script: str, folder: Path, cluster: Env, *words: object) -> str:
    """Submit a batch script from ``folder``; return the number of its job."""
    done = run(["sbatch", "--parsable", *words], cwd=folder, env=cluster, stdin=script)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def await_end(number: str, cluster: Env) -> None:
    """Return when a job is over; ``sbatch --wait`` looks for its end every 2 to 10 seconds."""

    def is_over() -> bool:
        asked = run(["squeue", "--noheader", "--format=%i", f"--jobs={number}"], env=cluster)
        return asked.returncode == 0 and not asked.stdout

    wait_for(is_over)


def name_of(folder: Path) -> str:
    """Return a name for the jobs of a test, which has ``folder`` alone."""
    return f"{os.getpid()}-{folder.name}"


def job_of(cluster: dict[str, str], name: str) -> str:
    """Return the number of the one job of that name; others' jobs are none of a test's business."""
    words = ("squeue", "--noheader", "--format=%i", f"--name={name}")
    (number,) = run(words, env=cluster).stdout.split()
    return number


def processes_of(folder: Path) -> list[str]:
    """Return the processes with the variable MARK of a test, once those on their way are gone."""
    mark = f"MARK={folder}\0".encode()
    until(lambda: not _marked(mark), PATIENCE)
    return _marked(mark)


def _marked(mark: bytes) -> list[str]:
    commands = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                commands.append((entry / "cmdline").read_text().replace("\0", " "))
    return commands


def left_in_engine(docker: Callable[..., subprocess.CompletedProcess[str]]) -> list[str]:
    """Return the containers and images that programs left in the engine when they ended.

    Other tests may use it meanwhile.
    """
    left = []
    form = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    for kind in ("container", "image"):
        words = (kind, "ls", "--all", "--quiet", "--filter", f"label={LABEL}")
        for each in docker(*words).stdout.split():
            shown = docker(kind, "inspect", "--format", form, each).stdout.split()
            if shown and str(read_start(int(shown[1]))) != shown[2]:
                left.append(each)
    return left
