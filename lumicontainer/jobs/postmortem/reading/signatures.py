"""Messages of programs that die, as data: each with its kind, its cause, a hint and the source."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

FATAL, CAUSE, MISMATCH, ABSENT = "fatal", "cause", "mismatch", "absent"
START, CONNECT, TIMEOUT, CLOSED = "start", "connect", "timeout", "closed"
CANCELLED, ENDED, ABORT, SYMPTOM, NOTE = "cancelled", "ended", "abort", "symptom", "note"
PROVING = (FATAL, CANCELLED, ENDED, ABORT)
"""Kinds that prove by themselves that a job failed."""
ABORTING = ("rccl-timeout",)
"""Messages after which PyTorch ends the rank, whatever else its log has."""
WAITING = (TIMEOUT, CLOSED, CONNECT, START)
"""Kinds of ranks that wait for another, or for the rank 0."""
DEFECT = "gpu-hardware"
"""The message of a defective GPU. Its pattern is one of ``grep -E`` too, for batch scripts."""


class Signature(NamedTuple):
    """Hold a message by its pattern, and what it means."""

    id: str
    kind: str
    pattern: re.Pattern[str]
    cause: str
    hint: str
    source: str
    order: int
    """Its place in the file: of two in one log, the earlier is named."""


class Match(NamedTuple):
    """Hold a message in a text, by the place of its first character."""

    signature: Signature
    start: int
    text: str
    ranks: tuple[int, ...]
    node: str
    detail: str


@cache
def signatures() -> tuple[Signature, ...]:
    """Return all signatures in the order of the file."""
    rows = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return tuple(
        Signature(
            row["id"],
            row["kind"],
            re.compile(row["pattern"], re.MULTILINE),
            row["cause"],
            row["hint"],
            row["source"],
            order,
        )
        for order, row in enumerate(rows)
    )


def pattern_of(name: str) -> str:
    """Return the pattern of a signature by its name."""
    return next(each.pattern.pattern for each in signatures() if each.id == name)


MOST = 200
"""Matches of one signature in one log; a log can repeat a message for ever."""


def matches(text: str) -> Iterator[Match]:
    """Yield the messages in a text, at most ``MOST`` of each signature."""
    for signature in signatures():
        for number, match in enumerate(signature.pattern.finditer(text)):
            if number == MOST:
                break
            groups = {name: value or "" for name, value in match.groupdict().items()}
            yield Match(
                signature,
                match.start(),
                match[0],
                numbers(groups.get("rank", "")),
                groups.get("node", ""),
                groups.get("detail", ""),
            )


_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")
_MOST_RANKS = 100_000


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as ``0,2-4``."""
    values: list[int] = []
    for first, last in _RANGE.findall(text):
        values += range(int(first), min(int(last or first), int(first) + _MOST_RANKS) + 1)
    return tuple(values[:_MOST_RANKS])
