"""Lay lumi-verify out as an image has it, with checks of the test's own, and run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
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
SECONDS = 300
HANG = (
    "open(os.environ['MARK'] + f'/hangs-{threading.get_native_id()}', 'wb').close()"
    " or time.sleep(1000)"
)
"""An expression that says by a file that its thread hangs, and does."""
HANGS = f"""
import os, threading, time

def the_place():
    {HANG}

the_place()
"""
ABOVE = """
import os, time
status = open(f"/proc/{os.getppid()}/stat").read()
above = int(status.rpartition(")")[2].split()[1])
"""
"""The start of a check that knows the parent of its guard: lumi-verify, or its server of forks."""
HOLDS = "print('it holds')\n"
MARKED = f"left-over-of-a-check-of-{os.getpid()}"
"""Other runs of these tests on the machine leave theirs."""


class Image:
    """Hold a tree like an image's, whose checks are the scripts that it is given."""

    def __init__(self, root: Path, imports: Sequence[str] = ()) -> None:
        """Checks in Python that have ``imports`` in common are forked from a server."""
        self.root = root
        self.imports = list(imports)
        self.home = root / "opt/lumicontainer"
        lay_out(root)
        (self.home / "checks/t").mkdir(parents=True)
        self.rows: list[dict[str, Any]] = []

    def wait_shortly(self, limit: str) -> None:
        """Have this copy wait two seconds for ranks to end (AFTER) or to answer (LATE)."""
        self.edit("local.py", rf"(?m)^{limit} = \d+$", f"{limit} = 2")

    def end_only_what_hangs(self, threads: int = 1) -> None:
        """Have this copy's time limits end a check only once as many threads are in HANG."""
        hang = f"len(glob.glob(env['MARK'] + '/hangs-*')) >= {threads}"
        self.edit(
            "process.py",
            r"over = (time\.monotonic\(\) - begun > seconds)",
            rf"over = \1 and {hang}",
        )

    def edit(self, module: str, pattern: str, new: str) -> None:
        """Change how this copy runs checks, in one place."""
        file = self.home / "lib/lumi_inside/verify" / module
        text, count = re.subn(pattern, new, file.read_text())
        assert count == 1
        file.write_text(text)

    def add(self, name: str, script: str, **changes: Any) -> None:
        """Add the check ``t/name``, a shell script if it says so, else Python."""
        suffix = "sh" if script.startswith("#!") else "py"
        row = {
            "name": f"t/{name}",
            "summary": f"{name} holds",
            "hint": f"hint {name}",
            "file": f"checks/t/{name}.{suffix}",
            "level": "quick",
            "runs": "once",
            "timeout_seconds": SECONDS,
            "imports": self.imports if suffix == "py" else [],
        }
        (self.home / row["file"]).write_text(script)
        self.rows.append({**row, **changes})
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
        self,
        *words: str,
        ranks: int = 4,
        absent: Collection[int] = (),
        before: Sequence[str] = (),
        **env: str,
    ) -> list[subprocess.Popen[str]]:
        """Start lumi-verify as srun starts the tasks of a step, half of them on each node.

        Those of ``absent`` are not started.
        """
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
            if rank not in absent
        ]

    def running(self) -> list[str]:
        """Return what runs of this image's checks and of lumi-verify.

        Whoever clears its environment still has a name: scripts begin with ``exec -a``.
        """
        command = ["ps", "axeww", "o", "args"]
        shown = subprocess.run(command, check=True, capture_output=True).stdout.decode("latin-1")
        marks = (f"MARK={self.root} ", MARKED)
        return [line for line in shown.splitlines() if any(mark in line for mark in marks)]

    def left(self) -> list[str]:
        """Return what still runs, once those on their way went."""
        end = time.monotonic() + SECONDS
        while (processes := self.running()) and time.monotonic() < end:
            time.sleep(0.05)
        return processes


class Ran:
    """Hold what a lumi-verify that has ended said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.stdout, self.stderr = process.communicate(timeout=SECONDS)
        self.code = process.returncode

    @property
    def report(self) -> Any:
        assert self.stdout, self.stderr
        return json.loads(self.stdout)

    @property
    def states(self) -> dict[str, str]:
        return {row["name"].removeprefix("t/"): row["state"] for row in self.report["checks"]}

    def check(self, name: str) -> Any:
        """Return the row of a check."""
        return next(row for row in self.report["checks"] if row["name"] == f"t/{name}")


def awaited(condition: Callable[[], Any]) -> Any:
    """Return what ``condition`` does, once it is true."""
    end = time.monotonic() + SECONDS
    while not (value := condition()):
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.02)
    return value
