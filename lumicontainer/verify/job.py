"""Run lumi-verify as a job of Slurm: write the batch script, send it, follow it, collect."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lumicontainer.build.failures.failure import last_lines
from lumicontainer.core.model import Platform
from lumicontainer.core.render.jinja import fill
from lumicontainer.engines import Engine
from lumicontainer.errors import HostError, Problem
from lumicontainer.inside.node.cpulist import parse
from lumicontainer.system import process
from lumicontainer.system.terminal.text import clean
from lumicontainer.verify import slurm
from lumicontainer.verify.local import words
from lumicontainer.verify.results import Part, held, read
from lumicontainer.verify.subject import Row

TEMPLATE = "verify.sh.j2"
LOG, ENDED = "log", "ended"
MPI, NO_MPI = "pmi2", "none"
"""How MPI's ranks meet, as srun calls it: MPICH and Cray MPICH know PMI-2."""
_SPARE = 5
"""Minutes of a job, or of a step, beside those of its checks: containers start, ranks meet."""
_MOST = 60
"""Minutes that a job asks for at most: checks seldom take their limits. SBATCH_TIMELIMIT wins."""
_TURN = 0.5
"""Seconds between two looks at the log, which lies on a file system of several machines."""
_FIRST, _ASK = 1.0, 10.0
"""Seconds to the first question to Slurm, and at most between two: its servers are shared."""


@dataclass(frozen=True)
class Step:
    """Hold checks that one step of the job makes, and how its ranks meet."""

    checks: tuple[Row, ...]
    mpi: str = NO_MPI

    @property
    def minutes(self) -> int:
        """Return how long it may take: what its checks may."""
        return minutes(self.checks)

    @property
    def words(self) -> list[str]:
        """Return the options of lumi-verify that name its checks."""
        return [word for check in self.checks for word in ("-k", check["name"])]


@dataclass(frozen=True)
class Job:
    """Hold what a job is to do, and with what."""

    image: Path
    platform: Platform
    engine: Engine
    steps: Sequence[Step]
    nodes: int = 1
    partition: str = ""
    account: str = ""
    required: str = ""
    recipes: Path | None = None
    """A user's own recipes, in which the platform may be."""


class Listener(NamedTuple):
    """Hold who takes each line of a job's log, and what the job waits for (nothing: empty)."""

    tell: Callable[[str], None]
    waiting: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class Collected:
    """Hold what came of checks, and why the job failed in which they were made, if it did."""

    parts: tuple[Part, ...]
    problem: Problem | None = None
    rows: tuple[Row, ...] = ()
    """What came of checks that are in no part."""


def steps(checks: Sequence[Row]) -> list[Step]:
    """Return the steps that make checks: one for all but those of MPI, which have one each.

    A process can be started as one of MPI's ranks once.
    """
    plain = tuple(check for check in checks if not is_of_mpi(check))
    own = [Step((check,), MPI) for check in checks if is_of_mpi(check)]
    return [*([Step(plain)] if plain else []), *own]


def is_of_mpi(check: Row) -> bool:
    """Tell whether the ranks of a check are those of MPI."""
    return check.get("runs") == "ranks" and bool(check.get("needs", {}).get("mpi"))


def minutes(checks: Sequence[Row]) -> int:
    """Return in how many minutes checks are done, or have run into their limits."""
    seconds: int = sum(check["timeout_seconds"] for check in checks)
    return _SPARE + -(-seconds // 60)


def binds_command(image: Path, platform: Platform, recipes: Path | None) -> list[str]:
    """Return the command that prints, on a node, what an image needs of it; empty if nothing."""
    if not platform.binds:
        return []
    command = [sys.executable, "-m", "lumicontainer", "binds", "--platform", platform.name]
    if recipes:
        command += ["--recipes", str(recipes.absolute())]
    return [*command, str(image.absolute())]


def tasks(platform: Platform) -> int:
    """Return the ranks of a node: one a GPU; without GPUs two, for what is between them."""
    return len(platform.gpus) or 2


def cpus(platform: Platform) -> int:
    """Return the cores that are next to a GPU; 0 where there is none."""
    return len(parse(platform.gpus[0].cores)) if platform.gpus else 0


def script(job: Job, folder: Path) -> str:
    """Return the batch script of a job whose results come to lie in ``folder``."""
    *start, image = job.engine.execute(job.image.absolute(), (), binds=())
    return fill(
        TEMPLATE,
        image=image,
        start=start,
        command=words((), job.required),
        binds=binds_command(job.image, job.platform, job.recipes),
        folder=str(folder),
        nodes=job.nodes,
        tasks=tasks(job.platform),
        cpus=cpus(job.platform),
        minutes=min(_MOST, minutes([check for step in job.steps for check in step.checks])),
        steps=job.steps,
    )


def run(job: Job, listener: Listener) -> Collected:
    """Run a job to its end and return what came of it; cancel it where this is interrupted."""
    if not job.steps:
        return Collected(())
    if process.find("sbatch") is None:
        why, hint = (
            "sbatch is not on PATH",
            "run it without --nodes and --partition, to verify here",
        )
        raise HostError(Problem("this host has no Slurm", why=why, hint=hint))
    # Here, for /tmp is each node's own.
    folder = Path(tempfile.mkdtemp(prefix="lumi-verify-", dir=Path.cwd()))
    folder.chmod(0o755)
    try:
        number = _sent(job, folder)
        listener.tell(f"job {number} is sent; its log: {folder / LOG}")
        how = _followed(number, folder, listener)
        collected = _collected(job, folder, how)
    except BaseException:
        # By its name, because it may have been sent and not told yet by which number.
        with contextlib.suppress(HostError):
            process.capture(["scancel", f"--name={folder.name}"])
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if collected.problem is None:
        shutil.rmtree(folder, ignore_errors=True)
    return collected


def _sent(job: Job, folder: Path) -> str:
    """Send a job that Slurm says it could run; return its number."""
    path = folder / "job.sh"
    path.write_text(script(job, folder))
    options = [f"--job-name={folder.name}", f"--output={str(folder / LOG).replace('%', '%%')}"]
    if job.partition:
        options.append(f"--partition={job.partition}")
    if job.account:
        options.append(f"--account={job.account}")
    slurm.check([*options, str(path)], job.partition)
    return slurm.send([*options, str(path)])


def _followed(number: str, folder: Path, listener: Listener) -> str:
    """Tell a job's log while it grows, until the job is over; return in words how it ended.

    Empty where its script came to its end. Raises ``JobError`` where it cannot start.
    """
    lines, queue = _new_lines(folder / LOG), _Queue(number, listener)
    while True:
        ended = (folder / ENDED).exists()
        for line in next(lines):
            listener.tell(line)
        if ended:
            return ""
        if queue.is_left():
            return _over(number, folder / ENDED)
        time.sleep(_TURN)


class _Queue:
    """Ask for the state of a job now and then, and say why it waits."""

    def __init__(self, number: str, listener: Listener) -> None:
        self._number = number
        self._listener = listener
        self._since = time.strftime("%H:%M:%S")
        self._pause, self._next = _FIRST, time.monotonic() + _FIRST
        self._state = slurm.UNKNOWN

    def is_left(self) -> bool:
        """Tell whether the job is over; raise ``JobError`` where it will never start."""
        if time.monotonic() < self._next:
            return False
        self._pause = min(_ASK, 2 * self._pause)
        self._next = time.monotonic() + self._pause
        before, self._state = self._state, slurm.look(self._number)
        if self._state != before:
            self._say(self._state)
        elif self._state.never_starts:
            # Seen twice: a site may hold a job for a moment while it is looked at.
            raise slurm.stuck(self._number, self._state)
        return self._state == slurm.GONE

    def _say(self, state: slurm.State) -> None:
        waits = f"job {self._number} in the queue since {self._since}"
        reason = f"{waits}: {state.reason}" if state.reason else waits
        self._listener.waiting(reason if state.waits else "")


def _over(number: str, ended: Path) -> str:
    """Return how a job that is over ended, once its last file had time to be seen from here."""
    end = time.monotonic() + _ASK
    while not ended.exists():
        if time.monotonic() >= end:
            return slurm.last_state(number)
        time.sleep(_TURN)
    return ""


def _new_lines(log: Path) -> Iterator[list[str]]:
    """Yield the whole lines that a log has got since the last time, again and again."""
    at = 0
    while True:
        text = b""
        with contextlib.suppress(OSError), log.open("rb") as stream:
            stream.seek(at)
            text = stream.read()
        whole = text[: text.rfind(b"\n") + 1]
        at += len(whole)
        yield clean(whole.decode("utf-8", "replace")).splitlines()


def _collected(job: Job, folder: Path, how: str) -> Collected:
    parts = []
    for number, step in enumerate(job.steps):
        path, code = folder / f"{number}.json", folder / f"{number}.code"
        data = read(path.read_bytes()) if path.exists() else None
        status = code.read_text().strip() if code.exists() else ""
        ended = f"exit code {status}" if status else how or "not begun"
        why = ""
        if data is None:
            why = f"its step of the job did not report ({ended}): {folder / LOG}"
        elif status != str(int(not held(data))):
            why = f"its step of the job did not end as its report says ({ended}): {folder / LOG}"
        parts.append(Part(step.checks, data, why))
    ill = [part.why or part.interrupted for part in parts if part.why or part.interrupted]
    if not ill:
        return Collected(tuple(parts))
    log = folder / LOG
    said = last_lines(log.read_text(errors="replace")) if log.exists() else ""
    where = f"the whole log: {log}"
    why = "\n".join(filter(None, (how or ill[0], said)))
    return Collected(tuple(parts), Problem("the job failed", where, why, _MEND))


_MEND = f"{slurm.ASKS}; the script beside the log can be sent again with sbatch"
