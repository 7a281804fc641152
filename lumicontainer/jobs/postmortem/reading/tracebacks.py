"""The last traceback of a Python program: its exception, and the line of the user's code."""

import re
from itertools import islice
from typing import NamedTuple

_HEAD = "Traceback (most recent call last):"
_OF_WORKER = f"Original {_HEAD}"
"""The head of a DataLoader worker's traceback, which PyTorch appends to its own message."""
_FRAME = re.compile(r'^\s{0,12}File "([^"\n]{1,1000})", line (\d{1,9})(?:, in ([^\n]{1,200}))?$')
_RAISED = re.compile(r"^[A-Za-z_][\w.]{0,200}(?::|$)")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python3|^<")
_LOGGED = re.compile(r"^(?:ERROR|CRITICAL|WARNING|INFO)\b|[-|\[ ](?:ERROR|CRITICAL|WARNING)\b")
_LAST_WORDS = re.compile(
    r"^\s*$|^\[?[WEIF]?\d{4} |^\[[WE]\d{4}|[Ww]arning|^  |^Exception ignored|^terminate called"
    r"|^srun: |^slurmstepd: |^frame #|^Fatal Python error|resource_tracker|^Exception raised from"
    r"|NCCL (?:INFO|WARN)|^Current thread|^Thread 0x|^Extension modules"
)
_CHAINED = (_OF_WORKER, "During handling of the above", "The above exception was the direct cause")
_MOST_WORDS = 60


class Traceback(NamedTuple):
    """Hold an exception, and the last line of the user's code that led to it."""

    error: str
    """The line that names the exception."""
    place: str
    """The file and the line; empty if all frames are in libraries."""
    function: str
    first: int
    """The number of the line with which the tracebacks begin that led to it."""
    line: int
    """The number of its line in the log."""
    logged: bool
    """Whether the program printed it, and went on."""
    fatal: bool
    """Whether nothing was printed after it, as when a program ends with it."""

    @property
    def kind(self) -> str:
        """Return the class of the exception."""
        return self.error.partition(":")[0]


_MOST = 100
"""Tracebacks that are read at the start, and at the end of a log."""


def tracebacks(lines: list[str]) -> tuple[Traceback, ...]:
    """Return the tracebacks in a log, without those that led to another one."""
    heads = [number for number, text in enumerate(lines) if text.startswith((_HEAD, _OF_WORKER))]
    if len(heads) > 2 * _MOST:
        heads = [*heads[:_MOST], *heads[-_MOST:]]
    every = [_read(lines, heads[: count + 1]) for count in range(len(heads))]
    later = [*(each.first for each in every[1:]), len(lines) + 1]
    return tuple(each for each, first in zip(every, later, strict=False) if first > each.line)


def _read(lines: list[str], heads: list[int]) -> Traceback:
    """Return the traceback at the last of some heads."""
    start = heads[-1]
    place, function = _user_frame(lines, _chain(lines, heads, _CHAINED[2:]) + 1)
    if _LIBRARY.search(place):
        place, function = _user_frame(lines, start + 1)
    end = start + 1
    while end < len(lines) - 1 and not lines[end][:1].strip():
        end += 1
    end = min(end, len(lines) - 1)
    before = lines[start - 1] if start else ""
    logged = bool(_LOGGED.search(before)) or not _RAISED.match(lines[end])
    fatal = not logged and _is_end(lines, end + 1)
    first = _chain(lines, heads, _CHAINED) + 1
    return Traceback(lines[end], place, function, first, end + 1, logged, fatal)


def _chain(lines: list[str], heads: list[int], words: tuple[str, ...]) -> int:
    """Return the start of the first traceback in the chain that led to the last one."""
    first = heads[-1]
    for head in reversed(heads[:-1]):
        if not any(text.startswith(words) for text in lines[head : first + 1]):
            break
        first = head
    return first


def _user_frame(lines: list[str], start: int) -> tuple[str, str]:
    """Return the last frame outside of libraries, and its function; else the last one."""
    place, function, any_place = "", "", ""
    for text in islice(lines, start, None):
        if match := _FRAME.match(text):
            any_place = f"{match[1]}:{match[2]}"
            if not _LIBRARY.search(match[1]):
                place, function = any_place, match[3] or ""
        elif text[:1].strip():
            break
    return place or any_place, function


_NATIVE = re.compile(r'^ {1,4}File "([^"\n]{1,1000})", line (\d{1,9}) in ')


def native_place(lines: list[str]) -> str:
    """Return the line of the user's code that faulthandler names, whose newest frame is first."""
    heads = [number for number, text in enumerate(lines) if text.startswith("Current thread 0x")]
    for text in lines[heads[0] + 1 :] if heads else ():
        if not (match := _NATIVE.match(text)):
            break
        if not _LIBRARY.search(match[1]):
            return f"{match[1]}:{match[2]}"
    return ""


def _is_end(lines: list[str], start: int) -> bool:
    others = (text for text in islice(lines, start, None) if not _LAST_WORDS.search(text))
    return next(islice(others, _MOST_WORDS, None), None) is None
