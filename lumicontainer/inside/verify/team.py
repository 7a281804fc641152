"""Run the processes of a check on this node: one, or ranks that find each other."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor

from ..checking import CHECK, REPORT, home
from ..program import find, interpreter
from . import child, outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .outcome import Outcome
    from .place import Place

ONCE, NODE, RANKS = "once", "node", "ranks"
_ENTRY = "bin/lumi-entry"
_MPI = "mpiexec"


class Team:
    """Run checks for one process of a launcher, or for a machine where there is none."""

    def __init__(self, place: Place, env: Mapping[str, str]) -> None:
        self.place = place
        self.env = env

    def run(self, check: Mapping[str, Any]) -> Outcome:
        """Run a check with all the processes that it wants; return what came of it."""
        if check.get("runs", ONCE) != RANKS:
            return self.process(check, 0)
        if check.get("needs", {}).get("mpi"):
            return self.process(check, 0, before=[_MPI, "-n", str(self.ranks(check))])
        ranks = self.ranks(check)
        port = str(free_port())
        with ThreadPoolExecutor(ranks) as pool:
            jobs = [
                pool.submit(self.process, check, rank, extra=by_hand(rank, ranks, port))
                for rank in range(ranks)
            ]
        return outcome.together(job.result() for job in jobs)

    def ranks(self, check: Mapping[str, Any]) -> int:
        """Return how many ranks a check gets here: what it needs, else one a GPU."""
        needs: Mapping[str, Any] = check.get("needs", {})
        gpus = self.place.gpus if needs.get("gpus") else 1
        return max(int(needs.get("tasks", 1)), gpus)

    def process(
        self,
        check: Mapping[str, Any],
        rank: int,
        *,
        before: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run one process of a check; ``before`` are the words that start it, as mpiexec."""
        with tempfile.TemporaryDirectory(prefix="lumi-verify-") as folder:
            report = os.path.join(folder, "report")
            with open(report, "w", encoding="utf-8"):
                pass
            env = {**self.env, **(extra or {}), REPORT: report, CHECK: json.dumps(check)}
            path = os.path.join(home(), check["file"])
            words = command(path, self.env, ranks=check.get("runs", ONCE) == RANKS)
            python = path.endswith(".py") and not before
            ended = child.run([*before, *words], env, seconds=check["seconds"], stacks=python)
            with open(report, encoding="utf-8") as stream:
                told = stream.read()
        architecture = self.place.architecture
        return outcome.of_process(ended, told, check=check, architecture=architecture, rank=rank)


def command(path: str, env: Mapping[str, str], *, ranks: bool) -> list[str]:
    """Return the words that start a check; ranks start as a user's do, by lumi-entry."""
    if path.endswith(".py"):
        started = os.path.join(os.path.dirname(os.path.abspath(__file__)), "started.py")
        words = [find("python3", env) or interpreter(), started, path]
    else:
        words = ["bash", path]
    return [os.path.join(home(), _ENTRY), "--", *words] if ranks else words


def by_hand(rank: int, ranks: int, port: str) -> dict[str, str]:
    """Return the variables that number a rank where no launcher does."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
