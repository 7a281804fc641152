"""Run the processes of a check on this node: one, or ranks that find each other."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ..checking import CHECK, REPORT, home
from ..launch.program import find, interpreter
from . import outcome, process
from .channel.keys import GIVEN
from .outcome import ERROR, PASSED, Outcome
from .resources import Place, alone

ONCE, NODE, RANKS = "once", "node", "ranks"
AFTER = 10
"""Seconds that ranks get to end by themselves when one of them has failed."""
LATE = 30
"""Seconds after its time limit in which an answer of a rank is awaited."""
SOON = 3
"""Seconds in which other ranks may answer when all is to end: Slurm kills soon after it asks."""
_ONE = {"WORLD_SIZE": "1"}
"""Tells a process of a check that it is the only one: below Slurm's daemon lumi-entry asks."""
_ENTRY = "bin/lumi-entry"
_MPI = "mpiexec"
_TICK = 0.2


class Team:
    """Run checks on a machine where there is no launcher.

    ``folder`` is where processes may write.
    """

    def __init__(
        self, place: Place, env: Mapping[str, str], folder: str, *, stop: process.Stop | None = None
    ) -> None:
        self.place = place
        self.env = env
        self.folder = folder
        self.stop = stop or process.Stop()
        self._halted: dict[str, str] = {}

    def lacking(self, check: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return what a check lacks here, as one of NEEDS and in words; None if nothing does."""
        return self.place.lacking(check)

    def lost(self) -> Outcome | None:
        """Return what is told of ranks that are not here; None where all are, as those of one."""
        return None

    def run(self, check: Mapping[str, Any]) -> Outcome:
        """Run a check with all the processes that it wants; return what came of it."""
        self.begin(check)
        if check.get("runs", ONCE) != RANKS:
            return self.process(check)
        ranks = self.ranks(check)
        if check.get("needs", {}).get("mpi"):
            return self.process(check, before=[_MPI, "-n", str(ranks)])
        with reserved_port() as port, ThreadPoolExecutor(ranks) as pool:
            jobs = {
                rank: pool.submit(
                    self.process, check, rank, extra=by_hand(rank, ranks, port.getsockname()[1])
                )
                for rank in range(ranks)
            }
            return outcome.together(self.gathered(check, jobs))

    def ranks(self, check: Mapping[str, Any]) -> int:
        """Return how many ranks a check gets here: what it needs, else one a GPU."""
        needs: Mapping[str, Any] = check.get("needs", {})
        gpus = self.place.gpus if needs.get("gpus") else 1
        return max(int(needs.get("tasks", 1)), gpus)

    def begin(self, check: Mapping[str, Any]) -> None:
        """Forget that an earlier run of a check was to end."""
        self._halted.pop(check["name"], None)

    def halt(self, check: Mapping[str, Any], why: str) -> None:
        """Have the processes of a check end, for the reason ``why``."""
        self._halted[check["name"]] = why

    def gathered(
        self, check: Mapping[str, Any], jobs: Mapping[int, Future[Outcome]]
    ) -> list[Outcome]:
        """Wait for processes; where they are ranks, those wait in vain for one that failed."""
        bound = check.get("runs", ONCE) == RANKS
        begun = time.monotonic()
        last = begun + check["timeout_seconds"] + process.STACKS + LATE
        pending: set[Future[Outcome]] = set(jobs.values())
        failed_at, halted = 0.0, False
        while pending and time.monotonic() < last:
            done, pending = wait(pending, _TICK, FIRST_COMPLETED)
            now = time.monotonic()
            if not failed_at and any(job.result().state != PASSED for job in done):
                failed_at = now
            over = bound and failed_at and now - failed_at > AFTER
            if pending and not halted and (over or self.stop.why):
                halted = True
                last = min(last, now + (SOON if self.stop.why else process.STACKS + LATE))
                self.halt(check, self.stop.why or _for_whose_sake(jobs))
        return [
            job.result() if job.done() else self.late(check, rank) for rank, job in jobs.items()
        ]

    def late(self, check: Mapping[str, Any], rank: int) -> Outcome:
        """Return what is told of a rank that does not answer."""
        why = f"it gave no answer within {check['timeout_seconds'] + process.STACKS + LATE} s"
        return Outcome(ERROR, why, rank=rank)

    def process(
        self,
        check: Mapping[str, Any],
        rank: int = 0,
        *,
        before: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run one process of a check; ``before`` are the words that start it, as mpiexec.

        ``extra`` holds the variables that number it; without them it is the only one.
        """
        own = extra or ({} if before else _ONE)
        return self._process(check, rank, {**alone(self.env), **own}, before=before)

    def _process(
        self,
        check: Mapping[str, Any],
        rank: int,
        env: Mapping[str, str],
        *,
        before: Sequence[str] = (),
        files: bool = False,
    ) -> Outcome:
        ranks = check.get("runs", ONCE) == RANKS
        # What a check prints of its environment is for others to read.
        env = {name: value for name, value in env.items() if name != GIVEN}
        folder = ""
        try:
            folder = tempfile.mkdtemp(prefix="lumi-verify-", dir=self.folder)
            report = os.path.join(folder, "report")
            with open(report, "w", encoding="utf-8"):
                pass
            # What Python is started by a check's script prints its stacks on SIGABRT.
            own = {REPORT: report, CHECK: json.dumps(check), "PYTHONFAULTHANDLER": "1"}
            # What a process that is killed leaves goes with the folder.
            own.update({} if ranks else {"TMPDIR": folder})
            path = os.path.join(home(), check["file"])
            ended = process.run(
                [*before, *command(path, env, ranks=ranks)],
                {**env, **own},
                seconds=check["timeout_seconds"],
                stop=lambda: self._halted.get(check["name"], ""),
                at_once=lambda: self.stop.why,
                files=files,
            )
            with open(report, encoding="utf-8", errors="replace") as stream:
                told = stream.read()
        except OSError as error:
            came = Outcome(ERROR, f"it cannot be run: {error}", rank=rank)
        else:
            of = self.place.architecture
            came = outcome.of_process(ended, told, check=check, architecture=of, rank=rank)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        came.host = self.place.host
        return came


def _for_whose_sake(jobs: Mapping[int, Future[Outcome]]) -> str:
    failed = [
        str(rank) for rank, job in jobs.items() if job.done() and job.result().state != PASSED
    ]
    return f"it was ended {AFTER} s after rank {', '.join(failed[:8])} had not passed"


def command(path: str, env: Mapping[str, str], *, ranks: bool) -> list[str]:
    """Return the words that start a check; ranks start as a user's do, by lumi-entry."""
    if path.endswith(".py"):
        started = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_check.py")
        words = [find("python3", env) or interpreter(), started, path]
    else:
        words = ["bash", path]
    return [os.path.join(home(), _ENTRY), "--", *words] if ranks else words


def by_hand(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the variables that number a rank where no launcher does."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def reserved_port() -> socket.socket:
    """Return a socket whose port nobody gets but who names it, and sets SO_REUSEADDR as well."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def writable_folder(env: Mapping[str, str], *, places: Sequence[str] = ()) -> str:
    """Return a folder where files can be written: TMPDIR, or one that every machine has.

    Raises OSError, with what each of them refused, where there is none.
    """
    refused = []
    asked = env.get("TMPDIR", "")
    for place in places or (*((asked,) if asked else ()), "/tmp", "/var/tmp", "/dev/shm"):
        try:
            with tempfile.TemporaryFile(dir=place) as probe:
                probe.write(bytes(1 << 16))
                probe.flush()
        except OSError as error:
            refused.append(f"{place}: {error.strerror}")
        else:
            return place
    raise OSError("; ".join(refused))
