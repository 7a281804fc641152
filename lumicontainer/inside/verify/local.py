"""Run a check on this node, without a launcher: as one process, or as several ranks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from ..checking import CHECK, REPORT, home
from ..launch.program import find, interpreter
from . import outcome, process
from .forks import Server, Servers
from .outcome import ERROR, PASSED, Outcome
from .process import Ended, Start, Stop
from .resources import KEY_VARIABLE, Check, Env, Place, alone

ONCE, NODE, RANKS = "once", "node", "ranks"
AFTER = 10
"""Seconds for the other ranks to end after one has failed."""
LATE = 30
"""Seconds to wait for a rank after its time limit."""
SOON = 3
"""Seconds for other ranks to answer after a signal: Slurm soon kills them."""
BESIDE = 5
"""Added to the nice value of processes that run next to servers. Servers import one module after
the other, which takes longest."""
_ONE = {"WORLD_SIZE": "1"}
"""Set for a single process: below Slurm's daemon lumi-entry would refuse to start without it."""
_ENTRY = "bin/lumi-entry"
_MPI = "mpiexec"
_REMOVAL = 10
"""Seconds for the removal of a node's caches."""
_TICK = 0.2


class Runner:
    """Run checks on a machine without a launcher; their processes write to ``folder``."""

    def __init__(self, place: Place, env: Env, folder: str, *, stop: Stop | None = None) -> None:
        self.place, self.env, self.folder = place, env, folder
        self.stop = stop or Stop()
        self._halted: dict[str, str] = {}
        # The environment of a check that is one process.
        environment = without_own({**alone(env), **_ONE})
        self._servers = Servers(environment, folder, lambda: self.stop.why)

    def unmet_need(self, check: Check) -> tuple[str, str] | None:
        """Return a need of a check that is not met, as one of NEEDS and in words, or None."""
        return self.place.unmet_need(check)

    def prepare(self, checks: Sequence[Check]) -> None:
        """Begin to import the modules that checks share; other checks can run meanwhile."""
        for check in filter(self.is_forked, checks):
            self._servers.having(check.get("imports", ()), check["timeout_seconds"])

    def is_forked(self, check: Check) -> bool:
        """Return whether a check is forked from a process that has imported its modules."""
        # What a driver of GPUs sets up at an import does not work in a forked process.
        once = check.get("runs", ONCE) == ONCE
        return check["file"].endswith(".py") and once and not self.place.gpus

    def gather(self, checks: Sequence[Check], seconds: float) -> None:
        """Let other ranks join; there are none without a launcher."""

    def close(self) -> None:
        """End the processes that serve several checks."""
        self._servers.close()

    def lost(self) -> Outcome | None:
        """Return an error about missing ranks; there are none without a launcher."""
        return None

    def run(self, check: Check) -> Outcome:
        """Run a check with all of its processes; return the outcome."""
        self.begin(check)
        if check.get("runs", ONCE) != RANKS:
            return self.process(check)
        ranks = self.ranks(check)
        if check.get("needs", {}).get("mpi"):
            before = [_MPI, "-n", str(ranks)]
            return self.process(check, env=alone(self.env), before=before)
        with reserved_port() as port, ThreadPoolExecutor(ranks) as pool:
            env, number = alone(self.env), port.getsockname()[1]
            jobs = {
                rank: pool.submit(
                    self.process, check, rank, {**env, **by_hand(rank, ranks, number)}
                )
                for rank in range(ranks)
            }
            return outcome.together(self.gathered(check, jobs))

    def ranks(self, check: Check) -> int:
        """Return the number of ranks for a check: the number that it needs, at least one a GPU."""
        needs: Mapping[str, Any] = check.get("needs", {})
        gpus = self.place.gpus if needs.get("gpus") else 1
        return max(int(needs.get("tasks", 1)), gpus)

    def begin(self, check: Check) -> None:
        """Reset ``halt`` for a check."""
        self._halted.pop(check["name"], None)

    def halt(self, check: Check, why: str) -> None:
        """End the processes of a check for the reason ``why``."""
        self._halted[check["name"]] = why

    def gathered(self, check: Check, jobs: Mapping[int, Future[Outcome]]) -> list[Outcome]:
        """Wait for processes. If a rank fails, end the others, which would wait for it."""
        bound = check.get("runs", ONCE) == RANKS
        begun = time.monotonic()
        last = begun + check["timeout_seconds"] + process.STACKS + LATE
        # Not ``wait``, which looks at every pending job each time.
        done: SimpleQueue[Future[Outcome]] = SimpleQueue()
        for job in jobs.values():
            job.add_done_callback(done.put)
        pending, failed_at, halted = len(jobs), 0.0, False
        while pending and time.monotonic() < last:
            passed = _passed_next(done)
            now = time.monotonic()
            pending -= passed is not None
            if passed is False and not failed_at:
                failed_at = now
            over = bound and failed_at and now - failed_at > AFTER
            if pending and not halted and (over or self.stop.why):
                halted = True
                last = min(last, now + (SOON if self.stop.why else process.STACKS + LATE))
                self.halt(check, self.stop.why or _why_ended(jobs))
        return [
            job.result() if job.done() else self.late(check, rank) for rank, job in jobs.items()
        ]

    def late(self, check: Check, rank: int) -> Outcome:
        """Return the outcome of a rank that does not answer."""
        why = f"no answer within {check['timeout_seconds'] + process.STACKS + LATE} s"
        return Outcome(ERROR, why, rank=rank)

    def process(
        self,
        check: Check,
        rank: int = 0,
        env: Env | None = None,
        *,
        before: Sequence[str] = (),
        files: bool = False,
    ) -> Outcome:
        """Run one process of a check, with its own environment if there are others.

        ``before`` is a command that starts it, such as mpiexec. With ``files`` it inherits all open
        files.
        """
        env = without_own({**alone(self.env), **_ONE} if env is None else env)
        server, folder = self._server(check), ""
        try:
            above = self._servers.folder if server else self.folder
            folder = tempfile.mkdtemp(prefix="lumi-verify-", dir=above)
            report = os.path.join(folder, "report")
            with open(report, "w", encoding="utf-8"):
                pass
            # Python processes of shell scripts print their stacks on SIGABRT.
            env.update({REPORT: report, CHECK: json.dumps(check), "PYTHONFAULTHANDLER": "1"})
            start: Start = partial(process.start, folder=folder, files=files)
            start = partial(_forked, server, start) if server else start
            ended = self._run_once(check, env, folder, start, before)
            with open(report, encoding="utf-8", errors="replace") as stream:
                written = stream.read()
        except OSError as error:
            result = Outcome(ERROR, f"cannot run it: {error}", rank=rank)
        else:
            of = self.place.architecture
            result = outcome.of_process(ended, written, check=check, architecture=of, rank=rank)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        result.host = self.place.host
        return result

    def _run_once(
        self, check: Check, env: Env, folder: str, start: Start, before: Sequence[str]
    ) -> Ended:
        """Run one process of a check until it ends, and leave no file of it outside ``folder``."""
        ranks = check.get("runs", ONCE) == RANKS
        # Temporary files of killed processes are removed with the folder. mpiexec kills all ranks
        # when one fails, before they could remove their caches.
        env = env if ranks and not before else {**env, "TMPDIR": folder}
        entry = self._entry(check, removes=not before) if ranks else []
        ended = process.run(
            [*before, *entry, *command(os.path.join(home(), check["file"]), env)],
            env,
            seconds=check["timeout_seconds"],
            stop=lambda: self._halted.get(check["name"], ""),
            at_once=lambda: self.stop.why,
            start=start,
        )
        if ranks and ended.code is None and not before:
            # With the program its guard was killed, which would have removed them.
            process.run([*entry, "true"], env, seconds=_REMOVAL, start=start)
        return ended

    def _entry(self, check: Check, *, removes: bool) -> list[str]:
        """Return what starts the ranks of a check as users' do."""
        # Ranks that need no GPU compute on the CPU if there are too few.
        shares = not (self.place.launched or check.get("needs", {}).get("gpus"))
        options = ["--allow-gpu-sharing"] if shares else []
        # On LUMI's nodes /tmp is in memory.
        options += ["--remove-caches"] if removes else []
        return [os.path.join(home(), _ENTRY), *options, "--"]

    def _server(self, check: Check) -> Server | None:
        """Return the server from which a check is to be forked, if there is one."""
        if not self.is_forked(check):
            return None
        return self._servers.having(check.get("imports", ()), check["timeout_seconds"]).result()


def _forked(
    server: Server, by_itself: Start, command: Sequence[str], env: Env
) -> tuple[process.Process, int]:
    return server.start(command[-1], env) or by_itself(command, env)


def runs_beside_others(check: Check) -> bool:
    """Return whether a check is one process that needs no GPU and measures nothing."""
    alone = check["level"] == "perf" or check.get("needs", {}).get("gpus")
    return check.get("runs", ONCE) == ONCE and not alone


def _passed_next(done: SimpleQueue[Future[Outcome]]) -> bool | None:
    """Return whether the next job that is done has passed; None if none is soon."""
    try:
        return done.get(timeout=_TICK).result().state == PASSED
    except Empty:
        return None


def _why_ended(jobs: Mapping[int, Future[Outcome]]) -> str:
    failed = [
        str(rank) for rank, job in jobs.items() if job.done() and job.result().state != PASSED
    ]
    return f"ended {AFTER} s after rank {', '.join(failed[:8])} did not pass"


def without_own(env: Env) -> dict[str, str]:
    """Return the environment of a check without the key of the ranks, which it may print.

    REPORT and CHECK of a check that runs lumi-verify are removed, too.
    """
    return {name: value for name, value in env.items() if name not in (KEY_VARIABLE, REPORT, CHECK)}


def command(path: str, env: Env) -> list[str]:
    """Return the command of a check."""
    if not path.endswith(".py"):
        return ["bash", path]
    started = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_check.py")
    return [find("python3", env) or interpreter(), started, path]


def by_hand(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the variables of a rank, which a launcher would set."""
    own = dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank))
    sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(ranks))
    return {**own, **sizes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def reserved_port() -> socket.socket:
    """Return a socket that reserves a port for programs that set SO_REUSEADDR."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def writable_folder(env: Env) -> str:
    """Return a writable folder: TMPDIR, or one that every machine has.

    Raises OSError, with the reason for each folder, if no folder is writable.
    """
    refused = []
    for place in filter(None, (env.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm")):
        try:
            with tempfile.TemporaryFile(dir=place) as probe:
                probe.write(bytes(1 << 16))
                probe.flush()
        except OSError as error:
            refused.append(f"{place}: {error.strerror}")
        else:
            return place
    raise OSError("; ".join(refused))
