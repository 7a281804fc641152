"""The end of each rank: of its logs, and of what Slurm and torchrun say about it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lumicontainer.jobs.postmortem.reading import signatures
from lumicontainer.jobs.postmortem.reading.logs import Log, Message
from lumicontainer.jobs.postmortem.reading.tracebacks import Traceback

EXCEPTION, SILENT = "exception", ""
_OF_RANKS = (
    *(signatures.FATAL, signatures.CAUSE, signatures.SYMPTOM, signatures.MISMATCH),
    *(signatures.ABSENT, *signatures.WAITING, signatures.ABORT),
)


@dataclass
class Rank:
    """Hold the end of a rank: the traceback, and the message that says most."""

    number: int
    logs: list[Log] = field(default_factory=list)
    ended: Message | None = None
    """The message of srun or torchrun about it."""
    turn: int = 0
    """Its place among those that a launcher saw end."""

    @property
    def traceback(self) -> Traceback | None:
        """Return the traceback with which it ended."""
        return log.traceback if (log := self.fatal_log) else None

    @property
    def fatal_log(self) -> Log | None:
        """Return the log with that traceback."""
        fatal = [log for log in self.logs if log.traceback and log.traceback.fatal]
        latest = max((log.time for log in self.logs), default=0)
        # A program that goes on after a traceback writes to its other log.
        fatal = [log for log in fatal if latest - log.time <= _AFTER]
        return max(fatal, key=lambda log: log.time, default=None)

    @property
    def logged(self) -> Traceback | None:
        """Return the last traceback, with which it need not have ended."""
        logs = sorted(self.logs, key=lambda log: log.time, reverse=True)
        return next((log.traceback for log in logs if log.traceback), None)

    @property
    def events(self) -> list[Message]:
        """Return the messages that belong to its end, the most important first."""
        log = self.fatal_log
        own = [
            event
            for each in self.logs
            for event in each.events
            if event.kind in _OF_RANKS and (log is None or _belongs(event, log))
        ]
        if log is None and not any(event.is_end for event in own):
            own = []
        return sorted(own, key=lambda event: event.match.signature.order)

    @property
    def kind(self) -> str:
        """Return the kind of its end; EXCEPTION for one that no signature knows."""
        kinds = [event.kind for event in self.events]
        if kinds and kinds[0] == signatures.ABORT and len(set(kinds)) > 1:
            kinds = [kind for kind in kinds if kind != signatures.ABORT]
        if kinds:
            return kinds[0]
        return EXCEPTION if self.traceback else SILENT

    @property
    def event(self) -> Message | None:
        """Return the message of its kind."""
        return next((event for event in self.events if event.kind == self.kind), None)

    @property
    def last_message(self) -> Message | None:
        """Return the message in the last line of a log, if that can be the cause of an end."""
        return next((event for log in self.logs if (event := log.last_cause)), None)

    @property
    def time(self) -> float:
        """Return when it wrote its last words."""
        log = self.fatal_log
        return log.time if log else max((each.time for each in self.logs), default=0)

    @property
    def node(self) -> str:
        """Return its node, if a log names it."""
        named = [log.node for log in self.logs if log.node]
        if not named and self.ended and len(self.ended.match.ranks) == 1:
            named = [self.ended.match.node]
        return named[0] if named else ""

    @property
    def last_line(self) -> str:
        """Return the last line that it wrote."""
        logs = sorted(self.logs, key=lambda log: log.time)
        return next((log.last for log in reversed(logs) if log.last.strip()), "")


_AFTER = 2.0
"""Seconds in which a program that ends with a traceback writes the rest of its output."""


def _belongs(event: Message, log: Log) -> bool:
    """Return whether a message is part of the end that a traceback describes."""
    if event.path != log.path or log.traceback is None:
        return event.kind in signatures.PROVING
    return event.line >= log.traceback.first or event.kind == signatures.CONNECT


def ranks_of(logs: Sequence[Log], nodes: Mapping[int, str]) -> dict[int, Rank]:
    """Return the ranks that have logs, or that a launcher names; ``nodes`` has their nodes."""
    ranks: dict[int, Rank] = {}
    for log in logs:
        if log.rank is not None:
            ranks.setdefault(log.rank, Rank(log.rank)).logs.append(log)
    turn = 0
    for event in _ends_of_ranks(of_kind(logs, signatures.ENDED), nodes):
        for number in event.match.ranks:
            rank = ranks.setdefault(number, Rank(number))
            if rank.ended is None:
                turn += 1
                rank.ended, rank.turn = event, turn
    return ranks


def _ends_of_ranks(events: Sequence[Message], nodes: Mapping[int, str]) -> list[Message]:
    """Return the messages of ends, without srun's if its tasks are launchers of ranks."""
    by_launcher = [event for event in events if event.match.signature.id == _TORCHRUN]
    if by_launcher or any(_is_elsewhere(event, nodes) for event in events):
        return by_launcher
    return list(events)


_TORCHRUN = "torchrun"


def _is_elsewhere(event: Message, nodes: Mapping[int, str]) -> bool:
    """Return whether a message names a node and a number that is of a rank on another one."""
    node = event.match.node
    return any(nodes.get(number, node) != node for number in event.match.ranks)


def of_kind(logs: Iterable[Log], *kinds: str) -> list[Message]:
    """Return the messages of some kinds, in the order of each log."""
    events = [event for log in logs for event in log.events if event.kind in kinds]
    return sorted(events, key=lambda event: (str(event.path), event.line))


def by_kind(ranks: Mapping[int, Rank]) -> Mapping[str, list[Rank]]:
    """Return the ranks by the kind of their end."""
    kinds: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks.values():
        kinds[rank.kind].append(rank)
    return kinds


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as text, such as ``0, 2-4``."""
    return ", ".join(_ranges(sorted(set(numbers))))


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    start = previous = None
    for number in [*numbers, None]:
        if previous is not None and number != previous + 1:
            yield f"{start}" if start == previous else f"{start}-{previous}"
            start = None
        start = number if start is None else start
        previous = number
