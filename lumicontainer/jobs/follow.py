"""Run a batch script as a Slurm job: submit it, follow its log, and cancel it if interrupted.

The script writes its exit code to the file ``ended`` as its last act.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError
from lumicontainer.jobs import slurm
from lumicontainer.system.terminal.output import clean

SCRIPT, LOG, ENDED = "job.sh", "log", "ended"
_TURN = 0.5
"""Seconds between two looks at the log, which lies on a shared file system."""
_FIRST, _ASK = 1.0, 10.0
"""Seconds to the first request to Slurm, and at most between two: its servers are shared."""


class Interrupted(Exception):  # noqa: N818 - no error
    """Somebody set ``Listener.stop``."""


@dataclass(frozen=True)
class Listener:
    """Hold the receivers of each line of a job's log, and of the reason why it waits."""

    on_line: Callable[[str], None]
    waiting: Callable[[str], None] = lambda _: None
    """Receives an empty text once the job does not wait."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to cancel the job from another thread."""


class End(NamedTuple):
    """Hold the number of a job, and how it ended in words; empty if its script finished."""

    number: str
    how: str


@dataclass(frozen=True)
class Asked:
    """Hold what a job asks Slurm for, as options of sbatch; empty texts ask for nothing."""

    partition: str = ""
    account: str = ""
    time: str = ""
    more: tuple[str, ...] = ()

    def options(self) -> list[str]:
        """Return the options of sbatch."""
        named = ("partition", "account", "time")
        given = [f"--{name}={value}" for name in named if (value := getattr(self, name))]
        return [*given, *self.more]


def run(folder: Path, text: str, asked: Asked, listener: Listener, *, name: str = "") -> End:
    """Run a batch script to its end.

    If this is interrupted, it cancels the job. Raises ``JobError`` if Slurm refuses the job or
    cannot start it.
    """
    name = name or folder.name
    path = folder / SCRIPT
    path.write_text(text)
    options = [f"--job-name={name}", f"--output={str(folder / LOG).replace('%', '%%')}"]
    options += [*asked.options(), str(path)]
    slurm.check(options, asked.partition)
    number = ""
    try:
        number = slurm.submit(options)
        listener.on_line(f"job {number} is submitted; its log: {folder / LOG}")
        return End(number, _follow(number, folder, listener))
    except BaseException:
        # By its name if its number is not known yet.
        with contextlib.suppress(HostError):
            slurm.cancel([number] if number else [f"--name={name}"])
        raise


def _follow(number: str, folder: Path, listener: Listener) -> str:
    """Pass on the log of a job until the job is over; return in words how it ended.

    Empty if its script finished.
    """
    lines, queue = _new_lines(folder / LOG), _Queue(number, listener)
    while True:
        ended = (folder / ENDED).exists()
        for line in next(lines):
            listener.on_line(line)
        if ended:
            return ""
        if queue.is_left():
            return _end_of(number, folder / ENDED)
        if listener.stop.wait(_TURN):
            raise Interrupted


class _Queue:
    """Request the state of a job at intervals, and report why it waits."""

    def __init__(self, number: str, listener: Listener) -> None:
        self._number = number
        self._listener = listener
        self._since = time.strftime("%H:%M:%S")
        self._pause, self._next = _FIRST, time.monotonic() + _FIRST
        self._state = slurm.UNKNOWN

    def is_left(self) -> bool:
        """Return whether the job is over; raise ``JobError`` if it will never start."""
        if time.monotonic() < self._next:
            return False
        self._pause = min(_ASK, 2 * self._pause)
        self._next = time.monotonic() + self._pause
        before, self._state = self._state, slurm.look(self._number)
        if self._state != before:
            self._report(self._state)
        elif self._state.never_starts:
            # Seen twice: a site may hold a job for a moment while it examines the job.
            raise slurm.stuck(self._number, self._state)
        return self._state == slurm.GONE

    def _report(self, state: slurm.JobState) -> None:
        waits = f"job {self._number} in the queue since {self._since}"
        reason = f"{waits}: {state.reason}" if state.reason else waits
        self._listener.waiting(reason if state.waits else "")


def _end_of(number: str, ended: Path) -> str:
    """Return how a job ended; its last file may appear here some seconds later."""
    end = time.monotonic() + _ASK
    while not ended.exists():
        if time.monotonic() >= end:
            return slurm.last_state(number)
        time.sleep(_TURN)
    return ""


def _new_lines(log: Path) -> Iterator[list[str]]:
    """Yield the complete lines that were added to a log since the last time."""
    at = 0
    while True:
        text = b""
        with contextlib.suppress(OSError), log.open("rb") as stream:
            stream.seek(at)
            text = stream.read()
        whole = text[: text.rfind(b"\n") + 1]
        at += len(whole)
        yield clean(whole.decode("utf-8", "replace")).splitlines()
