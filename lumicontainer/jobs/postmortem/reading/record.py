"""Slurm's record of a job: how it ended, on which nodes, and where its output is.

sacct has it if the site runs slurmdbd, scontrol for some minutes after the end of a job.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.jobs import slurm

_STATE = re.compile(r"[A-Z_]+")
_ON_NODES = (slurm.LOST, "RUNNING", "COMPLETING")
"""States of jobs whose nodes may have failed."""
_ONE_NODE = re.compile(r"[\w.-]+")
"""One name of a node, and not a list such as nid[001-002]."""


class JobRecord(NamedTuple):
    """Hold what Slurm knows of a job; all is empty if it knows nothing."""

    state: str = ""
    names: tuple[str, ...] = ()
    """Its numbers; a job of an array has two, such as ``12_3`` and ``14``."""
    dead_nodes: tuple[str, ...] = ()
    only_node: str = ""
    """The node of a job that had one."""
    outputs: tuple[Path, ...] = ()
    folder: Path | None = None
    """Where the job was submitted."""
    restarts: int = 0
    """How often Slurm started it again."""
    parts: tuple[str, ...] = ()
    """The jobs of an array with their states; then all else is empty."""
    source: str = ""
    """The program that said so."""


def ask_slurm(number: str) -> JobRecord:
    """Ask Slurm about a job."""
    records, rows = slurm.job_records(number), slurm.job_account(number)
    if len(parts := _parts(records, rows)) > 1:
        return JobRecord(parts=parts)
    fields = records[0] if records else {}
    state = rows[0][1] if rows else fields.get("JobState", "")
    nodes = fields.get("NodeList") or (rows[0][3] if rows else "")
    match = _STATE.match(state)
    folder = fields.get("WorkDir", "")
    return JobRecord(
        match[0] if match else "",
        tuple(dict.fromkeys(_names(number, fields))),
        tuple(slurm.dead_nodes(nodes)) if match and match[0] in _ON_NODES else (),
        nodes if _ONE_NODE.fullmatch(nodes) else "",
        tuple(dict.fromkeys(_outputs(fields))),
        Path(folder) if folder.startswith("/") else None,
        int(fields.get("Restarts", 0)),
        source="sacct" if rows else "scontrol" if fields else "",
    )


def _parts(records: Sequence[Mapping[str, str]], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the jobs of an array, each with its state."""
    states = {row[0]: row[1] for row in rows if "_" in row[0] and "." not in row[0]}
    for fields in records:
        if "ArrayTaskId" in fields:
            states.setdefault(_array_name(fields), fields["JobState"])
    return tuple(f"{name} {state}" for name, state in states.items())


def _array_name(fields: Mapping[str, str]) -> str:
    return f"{fields['ArrayJobId']}_{fields['ArrayTaskId']}"


def _names(number: str, fields: Mapping[str, str]) -> Iterator[str]:
    yield number
    if "ArrayTaskId" in fields:
        yield _array_name(fields)
        yield fields["JobId"]


def _outputs(fields: Mapping[str, str]) -> Iterator[Path]:
    for name in ("StdOut", "StdErr"):
        if (text := fields.get(name, "")).startswith("/") and text != "/dev/null":
            yield Path(text)
