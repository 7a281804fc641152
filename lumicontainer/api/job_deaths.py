"""Why a job died."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.errors import InputError, Problem
from lumicontainer.jobs.postmortem.evidence import Evidence
from lumicontainer.jobs.postmortem.judge import find_cause
from lumicontainer.jobs.postmortem.ranks import listed
from lumicontainer.jobs.postmortem.reading.gather import Run, gather
from lumicontainer.jobs.postmortem.reading.record import JobRecord, ask_slurm
from lumicontainer.jobs.postmortem.verdict import CAUSE, NONE, Verdict
from lumicontainer.system.terminal.text import Folded, TextPart

_JOB = re.compile(r"(?a)\d{1,12}(?:[_+]\d{1,9})?")
"""The number of a job, of one of an array, or of a part of a heterogeneous job."""


class Postmortem(NamedTuple):
    """Hold the cause of a job's death, and what was read to find it."""

    verdict: Verdict
    logs: int
    ranks: int
    """Ranks that left a log, or that a launcher names."""
    dumps: int
    """Dumps of PyTorch's flight recorder."""
    state: str
    """The state of the job; empty if Slurm was not asked, or does not know it."""
    unreadable: Sequence[str]
    other_jobs: Sequence[str]

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer postmortem --json`` prints it."""
        return {
            **self.verdict.as_data(),
            "read": {
                "logs": self.logs,
                "ranks": self.ranks,
                "dumps": self.dumps,
                "state": self.state,
                "unreadable": list(self.unreadable),
                "other_jobs": list(self.other_jobs),
            },
        }

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer postmortem`` prints it."""
        verdict = self.verdict
        yield _heading(verdict)
        rows = [
            ("where", verdict.place),
            ("log", verdict.log),
            *(("said", each) for each in verdict.evidence),
            ("then", verdict.then),
            ("hint", verdict.hint if verdict.outcome == CAUSE else ""),
            ("source", verdict.source),
            ("read", self._read()),
            ("unread", self._others()),
            *(("unread", each) for each in self.unreadable[:5]),
        ]
        yield from (Folded(f"{label:>7}: ", text) for label, text in rows if text)

    def _read(self) -> str:
        parts = [f"{self.logs} logs of {self.ranks} ranks", f"{self.dumps} flight-recorder dumps"]
        parts += [f"Slurm's state {self.state}"] if self.state else []
        return "; ".join(parts)

    def _others(self) -> str:
        """Return which other jobs have files in the same folders."""
        jobs = self.other_jobs
        if not jobs:
            return ""
        noun = "job" if len(jobs) == 1 else "jobs"
        hint = f"lumicontainer postmortem {jobs[-1]} FOLDER"
        return f"files of {noun} {_first(jobs)}; to read those of one: {hint}"


def _heading(verdict: Verdict) -> str:
    if verdict.outcome == NONE and verdict.evidence:
        return "nothing in what was read proves that the job failed, but it says:"
    if verdict.outcome == NONE:
        return "no failure in what was read"
    if verdict.outcome != CAUSE:
        return "the job failed, and the cause is not known"
    nodes = f" on {', '.join(verdict.nodes)}" if verdict.nodes else ""
    if not verdict.ranks:
        return f"the job{nodes}: {verdict.cause}"
    noun = "rank" if len(verdict.ranks) == 1 else "ranks"
    return f"{noun} {listed(verdict.ranks)}{nodes}: {verdict.cause}"


def _first(words: Sequence[str]) -> str:
    return ", ".join(words[:_SHOWN]) + (", …" if words[_SHOWN:] else "")


def postmortem(*subjects: str | Path) -> Postmortem:
    """Return why a job died; ``subjects`` are its number, its folders of logs, or both.

    Raises ``InputError`` if there is nothing to read.
    """
    numbers = [str(each) for each in subjects if _JOB.fullmatch(str(each))]
    places = [Path(each) for each in subjects if not _JOB.fullmatch(str(each))]
    if len(numbers) > 1:
        hint = "call it once for each job"
        raise InputError(Problem("expected one job", why=f"got {', '.join(numbers)}", hint=hint))
    if absent := [each for each in places if not each.exists()]:
        hint = "name the folder of lumi-entry --log-dir, or a log"
        raise InputError(
            *(Problem("folder of logs not found", str(each), hint=hint) for each in absent)
        )
    job = numbers[0] if numbers else ""
    record = ask_slurm(job) if job else JobRecord()
    if record.parts:
        raise InputError(_several(job, record.parts))
    outputs = [each for each in record.outputs if each.is_file()]
    run = Run(record.names, outputs, record.restarts > 0)
    material = gather(places or _folders_of(record), run)
    if not (material.logs or material.dumps or record.state):
        raise InputError(_nothing(job, places, material.unreadable))
    evidence = Evidence(
        material.logs,
        material.dumps,
        record.state,
        record.dead_nodes,
        record.only_node,
        material.nodes,
    )
    return Postmortem(
        find_cause(evidence),
        len({log.path for log in material.logs}),
        len(evidence.ranks),
        len(material.dumps),
        record.state,
        material.unreadable,
        material.other_jobs,
    )


def _folders_of(record: JobRecord) -> list[Path]:
    """Return the folders of logs where the job was sent from."""
    if record.folder is None:
        return []
    return [each for name in _LOGS if (each := record.folder / name).is_dir()]


_LOGS = ("logs", "log", "output")
"""Folders of logs that people name like this, below where they submit."""


def _several(job: str, parts: Sequence[str]) -> Problem:
    failed = next((each for each in parts if not each.endswith(" COMPLETED")), parts[0])
    hint = f"lumicontainer postmortem {failed.partition(' ')[0]}"
    return Problem(f"expected one job, and {job} is an array of jobs", why=_first(parts), hint=hint)


_SHOWN, _READ = 10, os.R_OK | os.X_OK


def _nothing(job: str, places: Sequence[Path], unreadable: Sequence[str]) -> Problem:
    where = ", ".join(map(str, places)) or f"job {job}"
    why = "there is no log and no dump of the flight recorder there"
    if job and not places:
        why = "Slurm no longer knows the job, or this host has no Slurm"
    if closed := [str(each) for each in places if each.is_dir() and not os.access(each, _READ)]:
        why = f"you may not read {closed[0]}"
    if unreadable:
        why = f"its files cannot be read: {unreadable[0]}"
    hint = "name the folder of its logs: lumicontainer postmortem JOB FOLDER"
    return Problem("cannot find what the job left", where, why, hint)
