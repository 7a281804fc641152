"""Find the files that a job left, and read a bounded part of each."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

HEAD, TAIL = 1 << 16, 1 << 18
"""Bytes that are read at the start and at the end of a log."""
MOST_FILES, DEEPEST = 20_000, 5
LARGEST_RECORD = 1 << 26
CUT = "\n"
LOG, RECORD, ERROR_FILE, NODE = "log", "record", "error file", "node"
_RECORD = re.compile(r"(?:flight-recorder-rank|(?:nccl|comm_lib)_trace_rank_?)(\d{1,7})(?:\.json)?")
_LOG = re.compile(r".*\.(?:out|err|log|txt)|(?:stdout|stderr|slurm)\b.*|.*\.[oe]\d{1,12}")
_ERROR_FILE = re.compile(r".*error.*\.json")
_NODE = re.compile(r"[\d.]{1,30}-node-([\w.-]{1,64})\.ranks")
"""A file in which lumi-entry names the ranks of a node."""
_RANK = re.compile(r"rank[_-]?(\d{1,7})(?!\d)")
_ATTEMPT = re.compile(r"attempt_\d{1,5}/(\d{1,7})/")
_RUN = re.compile(
    r"slurm-(\d{1,12}(?:_\d{1,9})?)(?:[._-].*)?|(\d{1,12})\.\d{1,9}-.*|.*\.[oe](\d{1,12})"
)
"""Names of Slurm, of lumi-entry and of PBS; other numbers are not jobs."""
_NUMBERED = re.compile(r"(\d{1,6})\.(?:log|out|err|txt)")
"""The names of srun --output=%t.log."""


class JobFile(NamedTuple):
    """Hold a file of a job: its kind, its rank and the job's number, if its name has them."""

    path: Path
    kind: str
    rank: int | None
    job: str
    time: float
    size: int


def find_files(places: Sequence[Path]) -> Iterator[JobFile]:
    """Yield the logs and records in files and folders; links are not followed."""
    count = 0
    for place in places:
        for path in _walk(place) if place.is_dir() else [place]:
            try:
                status = path.stat() if path == place else path.lstat()
            except OSError:
                continue
            entry = _describe(path, place, status) if stat.S_ISREG(status.st_mode) else None
            if entry is not None:
                count += 1
                yield entry
            if count == MOST_FILES:
                return


def _walk(folder: Path) -> Iterator[Path]:
    for path, folders, names in os.walk(folder):
        depth = len(Path(path).relative_to(folder).parts)
        folders[:] = sorted(folders) if depth < DEEPEST else []
        yield from (Path(path, name) for name in sorted(names))


def _describe(path: Path, place: Path, status: os.stat_result) -> JobFile | None:
    within = str(path.relative_to(place)) if path != place else path.name
    job = match[match.lastindex or 0] if (match := _RUN.fullmatch(path.name)) else ""
    if match := re.search(rf"{_RECORD.pattern}$", path.name):
        return JobFile(path, RECORD, int(match[1]), job, status.st_mtime, status.st_size)
    if _ERROR_FILE.fullmatch(path.name):
        return JobFile(path, ERROR_FILE, _rank_in(within), job, status.st_mtime, status.st_size)
    if _NODE.fullmatch(path.name):
        return JobFile(path, NODE, None, job, status.st_mtime, status.st_size)
    if path == place or _LOG.fullmatch(path.name):
        return JobFile(path, LOG, _rank_in(within), job, status.st_mtime, status.st_size)
    return None


def _rank_in(name: str) -> int | None:
    match = _ATTEMPT.search(name) or _RANK.search(name) or _NUMBERED.fullmatch(Path(name).name)
    return int(match[1]) if match else None


def read_text(path: Path) -> str:
    """Return the start and the end of a log."""
    with open(_open(path), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(HEAD if size > HEAD + TAIL else HEAD + TAIL)
        if size > HEAD + TAIL:
            stream.seek(size - TAIL)
            content += CUT.encode() + stream.read(TAIL)
    return content.decode(errors="replace")


def read_record(path: Path) -> bytes:
    """Return a whole record; empty if it is larger than any that PyTorch writes."""
    with open(_open(path), "rb") as stream:
        content = stream.read(LARGEST_RECORD + 1)
    return content if len(content) <= LARGEST_RECORD else b""


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def read_node(path: Path) -> tuple[str, str]:
    """Return the name of a node, and the numbers of its ranks as text."""
    match = _NODE.fullmatch(path.name)
    with open(_open(path), "rb") as stream:
        return match[1] if match else "", stream.read(TAIL).decode(errors="replace")
