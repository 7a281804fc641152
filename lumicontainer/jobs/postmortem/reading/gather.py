"""Read all that a job left: logs, dumps of the flight recorder, files of torchelastic."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.jobs.postmortem.reading import files
from lumicontainer.jobs.postmortem.reading.files import JobFile
from lumicontainer.jobs.postmortem.reading.logs import Log, read_lines, read_log
from lumicontainer.jobs.postmortem.reading.recorder import Dump, UnreadableError, read_dump
from lumicontainer.jobs.postmortem.reading.signatures import numbers


class Material(NamedTuple):
    """Hold what was read of a job, and what could not be."""

    logs: Sequence[Log]
    dumps: Sequence[Dump]
    nodes: Mapping[int, str]
    """The node of each rank, where lumi-entry wrote it."""
    unreadable: Sequence[str]
    """Files with the reason."""
    other_jobs: Sequence[str]
    """Numbers of other jobs whose files lie there too."""


class Run(NamedTuple):
    """Hold the marks by which a job's files are recognized."""

    names: Sequence[str] = ()
    """Its numbers; a job of an array has two, such as ``12_3`` and ``14``."""
    outputs: Sequence[Path] = ()
    """Files that Slurm names, which may be called like another job."""
    is_repeated: bool = False
    """Whether Slurm started it again, so that its output may have several runs."""


_ANY = Run()


def gather(places: Sequence[Path], run: Run = _ANY) -> Material:
    """Read the files of one job; without a number, of a named file's job or the newest one."""
    every = list(files.find_files(list(dict.fromkeys([*places, *run.outputs]))))
    named = {*places, *run.outputs}
    own = [each.job for each in every if each.path in named and each.job]
    names = run.names or own or _newest(every)
    # Files without a number, such as torchrun's, belong to every job.
    chosen = [each for each in every if not each.job or each.job in names or each.path in named]
    others = {each.job for each in every if each not in chosen}
    logs: list[Log] = []
    dumps: list[Dump] = []
    nodes: dict[int, str] = {}
    unreadable: list[str] = []
    for entry in _last_runs(chosen):
        try:
            if entry.kind == files.RECORD:
                dumps.append(read_dump(files.read_record(entry.path), entry.rank or 0))
            elif entry.kind == files.NODE:
                node, ranks = files.read_node(entry.path)
                nodes.update(dict.fromkeys(numbers(ranks), node))
            elif entry.kind == files.ERROR_FILE:
                logs += _read_error_file(entry)
            else:
                again = run.is_repeated and entry.path in run.outputs
                logs += read_log(entry, last_run=again)
        except (OSError, UnreadableError, json.JSONDecodeError, RecursionError) as error:
            unreadable.append(f"{entry.path}: {error}")
    return Material(logs, dumps, nodes, unreadable, sorted(others, key=_by_number))


def _by_number(job: str) -> list[int]:
    return [int(part) for part in job.split("_")]


def _newest(every: Iterable[JobFile]) -> list[str]:
    """Return the number of the job whose files are the newest, if any has a number."""
    numbered = [each for each in every if each.job]
    return [max(numbered, key=lambda each: each.time).job] if numbered else []


def _last_runs(entries: Iterable[JobFile]) -> Iterator[JobFile]:
    """Yield the files of the last run; a second one in a folder has names such as ``X.1.err``."""
    newest: dict[tuple[str, str], JobFile] = {}
    for entry in entries:
        stem, _, suffix = entry.path.name.rpartition(".")
        if entry.kind != files.LOG or entry.rank is None:
            newest[(str(entry.path), "")] = entry
            continue
        before, _, number = stem.rpartition(".")
        plain = before if number.isdigit() and "rank" in before else stem
        key = (f"{entry.path.parent}/{plain}", suffix)
        if key not in newest or newest[key].time < entry.time:
            newest[key] = entry
    yield from newest.values()


def _read_error_file(entry: JobFile) -> Iterator[Log]:
    """Yield the traceback that torchelastic's ``record`` wrote (errors/error_handler.py)."""
    data: Any = json.loads(files.read_record(entry.path) or b"null")
    message = data.get("message") if isinstance(data, dict) else None
    if not isinstance(message, dict):
        return
    extra = message.get("extraInfo")
    text = extra.get("py_callstack") if isinstance(extra, dict) else message.get("message")
    if isinstance(text, str):
        numbered = list(enumerate(text[: files.TAIL].split("\n"), 1))
        yield read_lines(entry.rank, entry, numbered)
