"""Lay lumi-verify out as an image has it, with checks of the test's own, and run it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..conftest import PATH, lay_out

NODES = ("localhost", "nid2")
"""The first one is this machine, where rank 0 is looked for."""
STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": ",".join(NODES),
    "SLURM_STEP_LAUNCHER_PORT": "40001",
}
"""The variables that srun sets for every task of a step."""
SECONDS = 60
DAEMON = (
    "bash",
    "-c",
    'exec -a "slurmstepd: [4711.0]" bash -c \'"$@"; exit $?\' bash "$@"',
    "bash",
)
"""Starts a command as Slurm's daemon of a step does: below a process with its title."""


class Image:
    """Hold a tree like an image's, whose checks are the scripts that it is given."""

    def __init__(self, root: Path, imports: Sequence[str] = ()) -> None:
        self.root = root
        self.imports = list(imports)
        """What all its checks have in common, so that they are forked from a server."""
        self.home = root / "opt/lumicontainer"
        lay_out(root)
        (self.home / "checks/t").mkdir(parents=True)
        self.rows: list[dict[str, Any]] = []

    def wait_shortly(self) -> Image:
        """Have this copy wait two seconds at most for ranks that end or answer late."""
        self._edit(r"(?m)^(AFTER|LATE) = \d+$", r"\1 = 2", 2)
        return self

    def fork_none(self) -> None:
        """Have this copy start each check by itself, as it does beside GPUs."""
        self._edit("not self.place.gpus", "False", 1)

    def _edit(self, pattern: str, new: str, times: int) -> None:
        file = self.home / "lib/lumi_inside/verify/local.py"
        text, count = re.subn(pattern, new, file.read_text())
        assert count == times
        file.write_text(text)

    def add(self, name: str, script: str, **changes: Any) -> None:
        """Add the check ``t/name``, a shell script where it says so, else Python."""
        suffix = "sh" if script.startswith("#!") else "py"
        file = f"checks/t/{name}.{suffix}"
        (self.home / file).write_text(script)
        row = {
            "name": f"t/{name}",
            "summary": f"{name} holds",
            "hint": f"hint {name}",
            "file": file,
        }
        said = {"level": "quick", "runs": "once", "timeout_seconds": SECONDS, **changes}
        if self.imports and suffix == "py":
            said["imports"] = self.imports
        self.rows.append({**row, **said})
        (self.home / "checks.json").write_text(json.dumps(self.rows))

    def start(self, *words: str, before: Sequence[str] = (), **env: str) -> subprocess.Popen[str]:
        """Start lumi-verify by the words ``before``, with nothing but ``env``, PATH and HOME."""
        return subprocess.Popen(
            [*before, self.home / "bin/lumi-verify", *words],
            env={"PATH": PATH, "MARK": str(self.root), "HOME": str(self.root), **env},
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, **env: str) -> Ran:
        """Run lumi-verify to its end."""
        return Ran(self.start("--json", "-", *words, **env))

    def tasks(
        self, *words: str, ranks: int = 4, before: Sequence[str] = (), **env: str
    ) -> list[subprocess.Popen[str]]:
        """Start lumi-verify as srun starts the tasks of a step, half of them on each node."""
        half = ranks // 2
        each = {"SLURM_STEP_NUM_TASKS": str(ranks), "SLURM_STEP_TASKS_PER_NODE": f"{half}(x2)"}
        return [
            self.start(
                *words,
                before=before,
                **{**STEP, **each, **env},
                SLURM_PROCID=str(rank),
                SLURM_LOCALID=str(rank % half),
                SLURM_NODEID=str(rank // half),
                SLURMD_NODENAME=NODES[rank // half],
            )
            for rank in range(ranks)
        ]

    def running(self) -> list[str]:
        """Return what runs of this image's checks and of lumi-verify, once those on their way went.

        Whoever clears its environment still has a name: scripts begin with ``exec -a``.
        """
        end = time.monotonic() + 10
        while (found := list(self._running())) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def _running(self) -> Iterator[str]:
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
                env = (entry / "environ").read_bytes()
            except OSError:
                continue
            if entry.name.isdigit() and (f"MARK={self.root}\0".encode() in env or MARKED in words):
                yield words


MARKED = f"left-over-of-a-check-of-{os.getpid()}"
"""Other runs of these tests on the machine leave theirs."""


class Ran:
    """Hold what a lumi-verify that has ended said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.stdout, self.stderr = process.communicate(timeout=SECONDS)
        self.code = process.returncode

    @property
    def report(self) -> dict[str, Any]:
        assert self.stdout, self.stderr
        found: dict[str, Any] = json.loads(self.stdout)
        return found

    @property
    def states(self) -> dict[str, str]:
        return {row["name"].removeprefix("t/"): row["state"] for row in self.report["checks"]}

    def check(self, name: str) -> dict[str, Any]:
        """Return the row of a check."""
        found: dict[str, Any] = next(
            row for row in self.report["checks"] if row["name"] == f"t/{name}"
        )
        return found


def interrupt(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> None:
    """Send a signal to lumi-verify alone."""
    os.kill(process.pid, number)


def awaited(condition: Callable[[], Any]) -> Any:
    """Return what ``condition`` does, once it is true."""
    end = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.02)
    return found
