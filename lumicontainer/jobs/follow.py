"""Run a batch script as a Slurm job: submit it, follow its log, and cancel it if interrupted.

The script writes its exit code to the file ``ended`` as its last act.
"""

import contextlib
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError
from lumicontainer.jobs import slurm
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.programs.output_log import Lines

SCRIPT, LOG, ENDED = "job.sh", "log", "ended"
COMMAND = "command.sh"
"""The command of a job, with the user's environment; the job removes it when it starts."""
_TURN = 0.5
"""Seconds between two looks at the log, which lies on a shared file system."""
_MOST, _CHUNK = 1 << 20, 1 << 16
"""Bytes of the log that are read in one turn, and at once."""
_LOOKS = 6
"""After as many requests, Slurm is asked for the nodes of a running job too."""
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
class SbatchOptions:
    """Hold what a job asks Slurm for, as options of sbatch; empty texts ask for nothing."""

    partition: str = ""
    account: str = ""
    time: str = ""
    more: tuple[str, ...] = ()

    def options(self) -> list[str]:
        """Return the options of sbatch."""
        named = ("partition", "account", "time")
        options = [f"--{name}={value}" for name in named if (value := getattr(self, name))]
        return [*options, *self.more]


def run(
    folder: Path, text: str, sbatch: SbatchOptions, listener: Listener, *, name: str = ""
) -> End:
    """Run a batch script to its end.

    If this is interrupted, it cancels the job. Raises ``JobError`` if Slurm refuses the job or
    cannot start it.
    """
    name = name or folder.name
    path = folder / SCRIPT
    path.write_bytes(os.fsencode(text))
    options = [f"--job-name={name}", f"--output={str(folder / LOG).replace('%', '%%')}"]
    options += [*sbatch.options(), str(path)]
    slurm.check(options, sbatch.partition)
    number = ""
    try:
        number = slurm.submit(options)
        listener.on_line(f"job {number} is submitted; its log: {folder / LOG}")
        return End(number, _follow(number, folder, listener))
    except BaseException:
        # By its name if its number is not known yet.
        word = number or f"--name={name}"
        try:
            slurm.cancel([word])
        except HostError:
            listener.on_line(f"the job may still run; end it with: scancel {word}")
        raise


def watch(number: str, log: Path | None, listener: Listener) -> None:
    """Pass on the log of a job that is submitted already, until the job is over."""
    lines = _GrowingLog(log, listener.on_line) if log else None
    over = _looks(number, listener)
    while True:
        has_more = lines.pass_on() if lines else False
        if next(over) and not has_more:
            break
        if listener.stop.wait(0 if has_more else _TURN):
            raise Interrupted
    if lines:
        lines.pass_on()
        lines.close()


class _GrowingLog:
    """Pass on the lines of a log that a job writes, and a long line piece by piece."""

    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._path, self._on_line = path, on_line
        self._at = 0
        self._lines = Lines()

    def pass_on(self) -> bool:
        """Pass on what was added, as much as one turn reads; return whether there may be more."""
        end = self._at + _MOST
        # A pipe would never be read to its end, and neither would a device.
        with contextlib.suppress(OSError), open_regular(self._path) as stream:
            if os.fstat(stream.fileno()).st_size < self._at:
                self._at, end = 0, _MOST  # Slurm starts a job again with an empty log.
            stream.seek(self._at)
            while self._at < end and (chunk := stream.read(_CHUNK)):
                self._at += len(chunk)
                for line in self._lines.add(chunk):
                    self._on_line(line)
        return self._at >= end

    def close(self) -> None:
        """Pass on the last line if it has no end."""
        if line := self._lines.rest():
            self._on_line(line)


def _follow(number: str, folder: Path, listener: Listener) -> str:
    """Pass on the log of a job until the job is over; return in words how it ended.

    Empty if its script finished.
    """
    log = _GrowingLog(folder / LOG, listener.on_line)
    how = _wait_for_end(number, folder, log, listener)
    log.close()
    return how


def _wait_for_end(number: str, folder: Path, log: _GrowingLog, listener: Listener) -> str:
    over = _looks(number, listener)
    while True:
        ended = (folder / ENDED).exists()
        has_more = log.pass_on()
        if ended and not has_more:
            return ""
        if next(over) and not has_more:
            return _end_of(number, folder / ENDED)
        if listener.stop.wait(0 if has_more else _TURN):
            raise Interrupted


def _looks(number: str, listener: Listener) -> Iterator[bool]:
    """Yield whether a job is over; ask Slurm at intervals, and report what the job waits for.

    Raises ``JobError`` if it will never start.
    """
    since, pause, state = time.strftime("%H:%M:%S"), _FIRST, slurm.UNKNOWN
    ask, reported = time.monotonic() + pause, ""
    looks, silent = itertools.count(), list[str]()
    while True:
        if time.monotonic() >= ask:
            pause = min(_ASK, 2 * pause)
            ask = time.monotonic() + pause
            before, state = state, slurm.look(number)
            # Seen twice: a site may hold a job for a moment while it examines the job.
            if state == before and state.never_starts:
                raise slurm.stuck(number, state)
            if state.state != "RUNNING":
                silent = []
            elif next(looks) % _LOOKS == 0:
                silent = slurm.silent_nodes(number)
            if (now := _why_waiting(number, state, since, silent)) != reported:
                reported = now
                listener.waiting(now)
        yield state == slurm.GONE


def _why_waiting(number: str, state: slurm.JobState, since: str, silent: Sequence[str]) -> str:
    if state.waits:
        reason = f": {state.reason}" if state.reason else ""
        return f"job {number} in the queue since {since}{reason}"
    if state == slurm.UNKNOWN:
        return f"job {number}: Slurm does not tell its state; asking again"
    if not silent:
        return ""
    nodes = ", ".join(silent)
    return f"job {number}: no answer of {nodes}; Slurm ends the job if this lasts"


def _end_of(number: str, ended: Path) -> str:
    """Return how a job ended; its last file may appear here some seconds later."""
    end = time.monotonic() + _ASK
    while not _appears(ended):
        if time.monotonic() >= end:
            return slurm.last_state(number)
        time.sleep(_TURN)
    return ""


def _appears(file: Path) -> bool:
    # A client of NFS may remember for a minute that a file is missing, until the folder changes.
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(prefix=".", dir=file.parent):
        pass
    return file.exists()
