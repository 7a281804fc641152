"""Read what the probe prints on each node of a job."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

from lumicontainer.jobs.postmortem.ranks import listed
from lumicontainer.system.terminal.output import clean

_PAGE = 4096
_DIGITS = 19
"""The most digits of a number, as of 64 bits."""
_UNLIMITED = 1 << 60
"""Bytes from which on a control group of version 1 has no limit."""
_STATES = {
    "R": "running",
    "S": "waiting",
    "D": "waiting for a device or a file system",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended",
    "X": "ended",
    "I": "idle",
}
"""The states of processes, as ps(1) prints them."""


class RankState(NamedTuple):
    """Hold a rank: its first process, the state of that as ps prints it, and all its memory."""

    rank: int
    pid: int
    state: str
    memory: int


class GpuState(NamedTuple):
    """Hold a GPU of a node; the amounts of its memory are in bytes."""

    pci: str
    busy: int | None
    """Percent of the time."""
    memory: int
    total: int


class NodeState(NamedTuple):
    """Hold what a job does on a node; amounts of memory are in bytes."""

    name: str
    used: int | None
    """The memory of the job's control group; None without one."""
    limit: int | None
    total: int
    available: int
    ranks: Sequence[RankState]
    gpus: Sequence[GpuState]
    log: str
    """The file of this node's ranks that changed last; empty if they write to no files."""
    line: str
    """The last line of that file, as its program wrote it but for control characters."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer top --json`` prints it."""
        ranks = [each._asdict() for each in self.ranks]
        return {**self._asdict(), "ranks": ranks, "gpus": [each._asdict() for each in self.gpus]}

    def as_text(self) -> Iterator[str]:
        """Yield its lines as ``lumicontainer top`` prints them."""
        yield f"{self.name}: {self._ranks()}; {self._memory()}"
        yield f"  GPUs: {self._gpus()}"
        if self.log:
            yield f"  {self.log}: {self.line}"

    def _ranks(self) -> str:
        if not self.ranks:
            return "no ranks"
        states = Counter(_STATES.get(each.state, each.state) for each in self.ranks)
        counted = ", ".join(f"{number} {state}" for state, number in states.most_common())
        noun = "rank" if len(self.ranks) == 1 else "ranks"
        return f"{noun} {listed([each.rank for each in self.ranks])}: {counted}"

    def _memory(self) -> str:
        if self.used is None:
            of_ranks, free = sum(each.memory for each in self.ranks), _gib(self.available)
            return f"memory {_gib(of_ranks)} GiB, of the node's {_gib(self.total)} GiB {free} free"
        most = self.total if self.limit is None else self.limit
        return f"memory {_gib(self.used)} of {_gib(most)} GiB"

    def _gpus(self) -> str:
        if not self.gpus:
            return "the driver of AMD shows none on this node"
        busy = " ".join("-" if each.busy is None else str(each.busy) for each in self.gpus)
        memory = " ".join(_gib(each.memory) for each in self.gpus)
        most = max(each.total for each in self.gpus)
        return f"busy {busy} %; memory {memory} of {_gib(most)} GiB"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"


class _Process(NamedTuple):
    pid: int
    parent: int
    state: str
    memory: int
    variables: dict[str, str]


@dataclass
class _Frame:
    """Collect the lines of a node until its last one."""

    memory: tuple[int | None, int | None] = (None, None)
    node: tuple[int, int] = (0, 0)
    gpus: list[GpuState] = field(default_factory=list)
    processes: list[_Process] = field(default_factory=list)
    logs: list[tuple[int, str, str]] = field(default_factory=list)


class NodeReader:
    """Make states of nodes from the lines of all their probes."""

    def __init__(self) -> None:
        self._frames: dict[str, _Frame] = {}

    def add(self, line: str) -> NodeState | None:
        """Take a line; return the state of its node if the line completes it."""
        host, _, rest = line.rstrip("\n").partition("\t")
        kind, _, values = rest.partition("\t")
        frame = self._frames.setdefault(host, _Frame())
        if kind == "end":
            return _state_of(host, self._frames.pop(host))
        if kind in _READERS:
            words = values.split("\t", _READERS[kind][0])
            try:
                _READERS[kind][1](frame, words)
            except (ValueError, IndexError):
                return None
        return None


def _amount(word: str) -> int:
    """Read a number of any machine; raise ``ValueError`` for others."""
    if len(word) > _DIGITS:
        raise ValueError(word)
    return int(word)


def _read_memory(frame: _Frame, words: Sequence[str]) -> None:
    used, limit = (_amount(word) if word.isdecimal() else None for word in words)
    frame.memory = (used, None if limit is None or limit >= _UNLIMITED else limit)


def _read_node(frame: _Frame, words: Sequence[str]) -> None:
    frame.node = (_amount(words[0]) << 10, _amount(words[1]) << 10)


def _read_gpu(frame: _Frame, words: Sequence[str]) -> None:
    busy = _amount(words[1]) if words[1].isdecimal() else None
    frame.gpus.append(GpuState(clean(words[0]), busy, _amount(words[2]), _amount(words[3])))


def _read_process(frame: _Frame, words: Sequence[str]) -> None:
    pairs = (word.partition("=") for word in words[4].split())
    variables = {name: value for name, _, value in pairs}
    pid, parent, pages = _amount(words[0]), _amount(words[1]), _amount(words[3])
    frame.processes.append(_Process(pid, parent, clean(words[2]), pages * _PAGE, variables))


def _read_log(frame: _Frame, words: Sequence[str]) -> None:
    name = PurePath(clean(words[2])).name
    frame.logs.append((_amount(words[1]), name, clean(words[3]).strip()))


_READERS: dict[str, tuple[int, Callable[[_Frame, Sequence[str]], None]]] = {
    "memory": (1, _read_memory),
    "node": (1, _read_node),
    "gpu": (3, _read_gpu),
    "process": (4, _read_process),
    "log": (3, _read_log),
}
"""By kind of line: the tabs between its values, and what reads these."""


def _state_of(host: str, frame: _Frame) -> NodeState:
    _, log, line = max(frame.logs, default=(0, "", ""))
    ranks = _ranks_of(frame.processes, "RANK") or _ranks_of(frame.processes, "SLURM_PROCID")
    return NodeState(clean(host), *frame.memory, *frame.node, ranks, frame.gpus, log, line)


def _ranks_of(processes: Sequence[_Process], variable: str) -> list[RankState]:
    """Return the ranks by a variable; processes that a rank has started inherit it."""
    groups: dict[int, list[_Process]] = {}
    for each in processes:
        if re.fullmatch(r"(?a)\d{1,9}", value := each.variables.get(variable, "")):
            groups.setdefault(int(value), []).append(each)
    return [_rank_of(number, groups[number]) for number in sorted(groups)]


def _rank_of(number: int, processes: Sequence[_Process]) -> RankState:
    pids = {each.pid for each in processes}
    first = next((each for each in processes if each.parent not in pids), processes[0])
    return RankState(number, first.pid, first.state, sum(each.memory for each in processes))
