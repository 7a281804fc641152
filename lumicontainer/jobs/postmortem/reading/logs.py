"""Read the logs of ranks: take the labels of srun and torchrun off, and find what they say."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from lumicontainer.jobs.postmortem.reading import files, signatures
from lumicontainer.jobs.postmortem.reading.files import JobFile
from lumicontainer.jobs.postmortem.reading.signatures import Match, matches
from lumicontainer.jobs.postmortem.reading.tracebacks import Traceback, native_place, tracebacks
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.output import clean

_LABEL = re.compile(r"^ {0,7}(\d{1,7}): ?|^\[(?:default|rank|trainer)(\d{1,7})\]: ?")
_LINE = 2000
"""Characters of a line that are read; no message has more."""
_NODE = re.compile(r"^([\w.-]{1,64}):\d{1,10}:\d{1,10} \[\d{1,3}\] NCCL ", re.MULTILINE)
SHOWN = 300


class Message(NamedTuple):
    """Hold one message of a log, and where it is."""

    match: Match
    rank: int | None
    path: Path
    line: int
    text: str
    """The whole line, without secrets and escape sequences."""

    @property
    def kind(self) -> str:
        """Return the kind of its signature."""
        return self.match.signature.kind

    @property
    def is_end(self) -> bool:
        """Return whether it proves by itself that a rank or the job ended."""
        signature = self.match.signature
        return signature.kind in signatures.PROVING or signature.id in signatures.ABORTING


class Log(NamedTuple):
    """Hold what one rank wrote to one file."""

    rank: int | None
    path: Path
    time: float
    events: tuple[Message, ...]
    tracebacks: tuple[Traceback, ...]
    node: str
    last: str
    """Its last line."""
    native_place: str
    """The line of the user's code at which it crashed."""

    @property
    def traceback(self) -> Traceback | None:
        """Return its last traceback."""
        return self.tracebacks[-1] if self.tracebacks else None

    @property
    def last_cause(self) -> Message | None:
        """Return the message in its last line, if that can be the cause of an end."""
        if self.traceback and self.traceback.logged:
            return None
        last = self.last.strip()
        causes = (event for event in reversed(self.events) if event.kind == signatures.CAUSE)
        return next((event for event in causes if event.text == last), None)

    def messages(self, traceback: Traceback) -> list[Message]:
        """Return the messages in a traceback."""
        return [each for each in self.events if traceback.first <= each.line <= traceback.line]


def _show(text: str) -> str:
    """Return a line without the secrets in it, which no configuration of this host has."""
    masking.hide([*masking.shell_secrets(text), *masking.url_secrets(text)])
    return masking.masked(text)[:SHOWN]


_RUN_OVER = re.compile(
    r"\*\*\* JOB \d{1,12} ON [^\n]{1,300} DUE TO (?:JOB REQUEUE|NODE FAILURE|PREEMPTION)"
    r"|error: Node failure on "
)
"""Messages of Slurm after which it can start a job again (src/slurmd/slurmstepd/req.c)."""


def read_log(entry: JobFile, *, last_run: bool = False) -> Iterator[Log]:
    """Yield the log of each rank whose lines are in a file; ``last_run`` omits earlier runs."""
    text = clean(files.read_text(entry.path))
    numbered = list(enumerate(text.split("\n"), 1))
    if last_run:
        ends = [number for number, line in numbered if _RUN_OVER.search(line[:_LINE])]
        numbered = numbered[ends[-1] if ends else 0 :]
    by_rank: dict[int | None, list[tuple[int, str]]] = defaultdict(list)
    for number, line in numbered:
        rank, rest = _unlabelled(line[:_LINE])
        by_rank[entry.rank if rank is None or entry.rank is not None else rank].append(
            (number, rest)
        )
    for rank, lines in by_rank.items():
        yield read_lines(rank, entry, lines)


def _unlabelled(line: str) -> tuple[int | None, str]:
    """Return a line without the labels of srun and of PyTorch, and the rank in the inner one."""
    rank = None
    for _ in range(2):
        if not (match := _LABEL.match(line)):
            break
        rank, line = int(match[1] or match[2]), line[match.end() :]
    return rank, line


def read_lines(rank: int | None, entry: JobFile, lines: list[tuple[int, str]]) -> Log:
    """Return the log that these numbered lines are."""
    texts = [text for _, text in lines]
    joined = "\n".join(texts)
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    events = []
    for match in matches(joined):
        index = bisect_right(starts, match.start) - 1
        said = _show(texts[index].strip())
        events.append(Message(match, rank, entry.path, lines[index][0], said))
    named = _NODE.search(joined)
    last = next((text for text in reversed(texts) if text.strip()), "")
    return Log(
        rank,
        entry.path,
        entry.time,
        tuple(events),
        tuple(_numbered(each, lines) for each in tracebacks(texts)),
        named[1] if named else "",
        _show(last),
        native_place(texts),
    )


def _numbered(traceback: Traceback, lines: list[tuple[int, str]]) -> Traceback:
    """Return a traceback with the numbers of its lines in the file, and without secrets."""
    first, line = (lines[number - 1][0] for number in (traceback.first, traceback.line))
    return traceback._replace(error=_show(traceback.error), first=first, line=line)
