"""Slurm's record of a job: how it ended, on which nodes, and where its output is.

sacct has it where the site runs slurmdbd, scontrol for some minutes after the end of a job.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lumicontainer.jobs import slurm

_STATE = re.compile(r"[A-Z_]+")
_ONE_NODE = re.compile(r"[\w.-]+")
"""One name of a node, and not a list such as nid[001-002]."""


class JobRecord(NamedTuple):
    """Hold what Slurm knows of a job; all is empty if it knows nothing."""

    state: str = ""
    dead_nodes: tuple[str, ...] = ()
    only_node: str = ""
    """The node of a job that had one."""
    outputs: tuple[Path, ...] = ()
    folder: Path | None = None
    """Where the job was submitted."""
    source: str = ""
    """The program that said so."""


def ask_slurm(number: str) -> JobRecord:
    """Ask Slurm about a job."""
    fields = slurm.job_fields(number)
    rows = slurm.job_account(number)
    state = rows[0][1] if rows else fields.get("JobState", "")
    nodes = fields.get("NodeList") or (rows[0][3] if rows else "")
    match = _STATE.match(state)
    dead = slurm.dead_nodes(nodes) if match and match[0] == "NODE_FAIL" else []
    folder = fields.get("WorkDir", "")
    return JobRecord(
        match[0] if match else "",
        tuple(dead),
        nodes if _ONE_NODE.fullmatch(nodes) else "",
        tuple(dict.fromkeys(_outputs(fields))),
        Path(folder) if folder.startswith("/") else None,
        "sacct" if rows else "scontrol" if fields else "",
    )


def _outputs(fields: dict[str, str]) -> Iterator[Path]:
    for name in ("StdOut", "StdErr"):
        if (text := fields.get(name, "")).startswith("/") and text != "/dev/null":
            yield Path(text)
