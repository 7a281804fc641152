"""See what a running job does on its nodes."""

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.jobs import slurm
from lumicontainer.jobs.watch.log import last_line
from lumicontainer.jobs.watch.nodes import NodeState
from lumicontainer.jobs.watch.probe import ask_nodes, watch_nodes
from lumicontainer.system import process
from lumicontainer.system.units import count

_SECONDS = 5
"""Seconds between two looks at each node."""
_TURN = 2.0
"""Seconds between two looks at a job in the queue."""
_JOB = re.compile(r"(?a)\d{1,10}(_\d{1,10})?")


class JobPicture(NamedTuple):
    """Hold what a job does on its nodes."""

    job: str
    name: str
    running: str
    """How long it runs, and its time limit."""
    limit: str
    expected: int
    """Its number of nodes."""
    nodes: Mapping[str, NodeState]
    """By name; a node that has not answered is missing."""
    line: str
    """The last line of the job's log."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer top --json`` prints it."""
        return {**self._asdict(), "nodes": [each.as_data() for each in self.nodes.values()]}

    def as_text(self) -> Iterator[str]:
        """Yield its lines as ``lumicontainer top`` prints them."""
        nodes = f"{len(self.nodes)} of {count(self.expected, 'node')}"
        times = f"{self.running} of {self.limit}"
        yield f"job {self.job} {self.name}: {times}, {nodes} answered"
        for node in self.nodes.values():
            yield from node.as_text()
        if self.line:
            yield f"log: {self.line}"


def look_at_job(number: str) -> JobPicture:
    """Return what a running job does on its nodes.

    Raises ``InputError`` if it does not run, and ``HostError`` if a node does not answer.
    """
    fields = _fields(number)
    if fields["JobState"] != "RUNNING":
        raise _not_running(number, fields)
    nodes = {each.name: each for each in ask_nodes(number, _nodes_of(fields))}
    return _picture(number, fields, nodes, slurm.log_of(number))


def watch_job(number: str, on_waiting: Callable[[str], None]) -> Iterator[JobPicture]:
    """Yield what a job does on its nodes, every few seconds until it ends.

    ``on_waiting`` gets the reason for which it waits. Raises what ``look_at_job`` raises.
    """
    fields = _wait_for_start(number, on_waiting)
    log, nodes = slurm.log_of(number), dict[str, NodeState]()
    answered, last = set[str](), -math.inf
    try:
        for state in watch_nodes(number, _nodes_of(fields), _SECONDS):
            nodes[state.name] = state
            answered.add(state.name)
            # One question to Slurm for all nodes together.
            if len(answered) < _nodes_of(fields) and time.monotonic() < last + _SECONDS:
                continue
            answered, last = set(), time.monotonic()
            fields = _record_of(number) or fields
            yield _picture(number, fields, dict(sorted(nodes.items())), log)
    except HostError:
        # The job's end ends the step.
        if _record_of(number).get("JobState") == "RUNNING":
            raise


def _wait_for_start(number: str, on_waiting: Callable[[str], None]) -> dict[str, str]:
    reported = ""
    while (fields := _fields(number))["JobState"] in ("PENDING", "CONFIGURING"):
        reason = fields.get("Reason", "None")
        if reason != reported:
            on_waiting(f"job {number} waits in the queue: {reason}")
            reported = reason
        time.sleep(_TURN)
    if fields["JobState"] != "RUNNING":
        raise _not_running(number, fields)
    return fields


def _fields(number: str) -> dict[str, str]:
    """Return what Slurm says of a job; raise the reason if it cannot be looked at."""
    if not _JOB.fullmatch(number):
        hint = "squeue --me lists your jobs"
        raise InputError(Problem(f"invalid job '{number}'", hint=hint))
    if process.find("srun") is None:
        hint = "call it on a login node of the cluster"
        raise HostError(Problem("this host has no Slurm", why="srun is not on PATH", hint=hint))
    fields = _record_of(number)
    if not fields:
        why = "Slurm does not know it, or does not answer"
        hint = "squeue --me lists your jobs; scontrol ping shows if this host reaches Slurm"
        raise InputError(Problem(f"job not found '{number}'", why=why, hint=hint))
    if "ArrayTaskId" in fields and "_" not in number:
        hint = f"name one of its jobs, such as {number}_{fields['ArrayTaskId'].split('-')[0]}"
        raise InputError(Problem(f"job {number} is an array", hint=hint))
    owner = re.fullmatch(r"(.*)\((\d+)\)", fields.get("UserId", ""))
    if owner and int(owner[2]) != os.geteuid():
        why = f"it is a job of {owner[1]}"
        hint = "squeue --me lists your jobs"
        raise InputError(Problem(f"cannot look at job {number}", why=why, hint=hint))
    return fields


def _record_of(number: str) -> dict[str, str]:
    return next(iter(slurm.job_records(number)), {})


def _not_running(number: str, fields: Mapping[str, str]) -> InputError:
    state, reason = fields["JobState"], fields.get("Reason", "None")
    if state in ("PENDING", "CONFIGURING"):
        hint = f"squeue --start --jobs={number} prints when it may start"
        return InputError(Problem(f"job {number} waits in the queue", why=reason, hint=hint))
    hint = f"lumicontainer postmortem {number}"
    return InputError(Problem(f"job {number} does not run: {state}", hint=hint))


def _nodes_of(fields: Mapping[str, str]) -> int:
    return int(re.split(r"\D", fields.get("NumNodes", "1"), maxsplit=1)[0] or 1)


def _picture(
    number: str, fields: Mapping[str, str], nodes: Mapping[str, NodeState], log: Path | None
) -> JobPicture:
    times = (fields.get("RunTime", ""), fields.get("TimeLimit", ""))
    name, line = fields.get("JobName", ""), last_line(log) if log else ""
    return JobPicture(number, name, *times, _nodes_of(fields), nodes, line)
