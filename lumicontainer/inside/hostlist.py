"""Expand Slurm's host lists as ``scontrol show hostnames`` does, which images do not have.

``nid[005001-005003,005010],login1`` names five hosts. A name may hold several brackets; the last
one varies fastest, then the first, the second, and so on: that is Slurm's own order
(``_push_range_list`` in src/common/hostlist.c). Text after the last bracket is read from Slurm
23.02.5 on; older ones refuse it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_HOSTS = 65536
"""Slurm's own limit (MAX_SLURM_NODES in slurm.h); it bounds what a hostile list can cost."""
MAX_NAME = 255
"""Longer than any host name (RFC 1035); it bounds the cost of one host."""


class HostlistError(ValueError):
    """Tell which part of a host list cannot be read, and why."""


def expand(text: str) -> list[str]:
    """Return the hosts that ``text`` names, in Slurm's order, repeated ones repeated.

    An empty list names no host. Raises HostlistError where the text is malformed, names more than
    65,536 hosts, or a host with more than 255 characters.
    """
    hosts: list[str] = []
    for item in _items(text):
        hosts += _expand_item(item, room=MAX_HOSTS - len(hosts))
    return hosts


def _items(text: str) -> Iterator[str]:
    for word in text.split():
        if "[" not in word:
            yield from filter(None, word.split(","))
            continue
        pieces: list[str] = []
        inside = False
        for piece in word.split(","):
            pieces.append(piece)
            if "[" in piece or "]" in piece:
                inside = piece.rfind("[") > piece.rfind("]")
            if not inside:
                if pieces != [""]:
                    yield ",".join(pieces)
                pieces = []
        if pieces:
            raise _error(",".join(pieces), "a bracket is not closed")


def _expand_item(item: str, *, room: int) -> list[str]:
    first, parts = _parse(item, room)
    length = len(first) + sum(len(max(numbers, key=len)) + len(text) for numbers, text in parts)
    if length > MAX_NAME:
        raise _error(item, f"a name has {length} characters, the limit is {MAX_NAME}")
    if not parts:
        return [first]
    *outer, (last, tail) = parts
    heads = [first]
    for numbers, text in outer:
        heads = [f"{head}{number}{text}" for number in numbers for head in heads]
    return [f"{head}{number}{tail}" for head in heads for number in last]


def _parse(item: str, room: int) -> tuple[str, list[tuple[list[str], str]]]:
    """Return the text before the first bracket, and each bracket's numbers with the text after."""
    first, *chunks = item.split("[")
    parts = []
    for chunk in chunks:
        inner, closed, text = chunk.partition("]")
        if not closed:
            raise _error(item, "a bracket inside a bracket")
        numbers = _numbers(inner, item, room)
        room //= len(numbers)
        parts.append((numbers, text))
    if "]" in first or any("]" in text for _, text in parts):
        raise _error(item, "a bracket is closed that was not opened")
    if room < 1:
        raise _too_many(item)
    return first, parts


def _numbers(inner: str, item: str, room: int) -> list[str]:
    numbers: list[str] = []
    for part in inner.split(","):
        if _is_digits(part):
            numbers.append(part)
            continue
        low, _, high = part.partition("-")
        if not (_is_digits(low) and _is_digits(high)):
            raise _error(item, f"'{_short(part)}' is neither a number nor a range like 1-4")
        start, end, width = int(low), int(high), len(low)
        if start > end:
            raise _error(item, f"the range '{_short(part)}' runs backwards")
        if end - start >= room - len(numbers):
            raise _too_many(item)
        numbers += [f"{value:0{width}d}" for value in range(start, end + 1)]
    if len(numbers) > room:
        raise _too_many(item)
    return numbers


def _too_many(item: str) -> HostlistError:
    return _error(item, f"the list names more than {MAX_HOSTS} hosts")


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_NAME


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _error(item: str, why: str) -> HostlistError:
    return HostlistError(f"cannot read '{_short(item)}': {why}")
