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
    return _read(text, whole=True)


def first(text: str) -> str:
    """Return the first host that ``text`` names, "" where it names none, and expand no range.

    The list is read to its end all the same: raises HostlistError where ``expand`` does.
    """
    return next(iter(_read(text, whole=False)), "")


def _read(text: str, *, whole: bool) -> list[str]:
    """Return the hosts; where not ``whole``, of each item of the list the first one only."""
    hosts: list[str] = []
    room = MAX_HOSTS
    for item in _items(text):
        numbers = item[1::2]
        # Names, and brackets with one number: lists of these take longest.
        if not numbers or (_is_digits("".join(numbers)) and "" not in numbers):
            host, count = "".join(item), 1
            if len(host) > MAX_NAME:
                raise _too_long(item, len(host))
            hosts.append(host)
        else:
            brackets, count = _brackets(item, room, whole)
            hosts += _product(item, brackets)
        room -= count
        if room < 0:
            raise _too_many(item)
    return hosts


def _items(text: str) -> Iterator[list[str]]:
    """Yield each item cut at its brackets: text, inside of a bracket, text, and so on."""
    for word in text.split():
        *pieces, rest = word.split("]")
        item: list[str] = []
        for piece in pieces:
            head, opened, inner = piece.partition("[")
            ended, comma, prefix = head.rpartition(",")
            if comma:
                yield from _ended(item, ended)
                item = []
            item += (prefix, inner)
            if not opened or "[" in inner:
                nested = "a bracket inside a bracket"
                raise _error(item, nested if opened else "a bracket is closed that was not opened")
        if "[" in rest:
            raise _error([rest.partition("[")[0].rpartition(",")[2], ""], "a bracket is not closed")
        yield from _ended(item, rest)


def _ended(item: list[str], text: str) -> Iterator[list[str]]:
    """Yield the item that ends within ``text``, and the names without brackets that follow."""
    if item:
        last, _, text = text.partition(",")
        yield [*item, last]
    if text:
        for name in text.split(","):
            if name:
                yield [name]


def _brackets(item: list[str], room: int, whole: bool) -> tuple[list[list[str]], int]:
    """Return the numbers of each bracket, and how many hosts they make."""
    hosts = 1
    length = len("".join(item[::2]))
    brackets = []
    for inner in item[1::2]:
        numbers, count = _numbers(inner, item, room // hosts, whole)
        hosts *= count
        length += len(numbers[0] if count == 1 else max(numbers, key=len))
        brackets.append(numbers if whole else numbers[:1])
    if length > MAX_NAME:
        raise _too_long(item, length)
    return brackets, hosts


def _product(item: list[str], brackets: list[list[str]]) -> list[str]:
    heads = [item[0]]
    last = brackets.pop()
    for numbers, text in zip(brackets, item[2::2]):
        heads = [head + number + text for number in numbers for head in heads]
    tail = item[-1]
    return [head + number + tail for head in heads for number in last]


def _numbers(inner: str, item: list[str], room: int, whole: bool) -> tuple[list[str], int]:
    """Return a bracket's numbers and their count; where not ``whole``, of a range its two ends."""
    numbers: list[str] = []
    count = 0
    for part in inner.split(","):
        if _is_digits(part):
            numbers.append(part)
            count += 1
            continue
        low, _, high = part.partition("-")
        if not (low and high and _is_digits(low + high)):
            raise _error(item, f"'{_short(part)}' is neither a number nor a range like 1-4")
        start, end, width = int(low), int(high), len(low)
        if start > end:
            raise _error(item, f"the range '{_short(part)}' runs backwards")
        count += end - start + 1
        if count > room:
            raise _too_many(item)
        values = range(start, end + 1) if whole else (start, end)
        numbers += [str(value).zfill(width) for value in values]
    if count > room:
        raise _too_many(item)
    return numbers, count


def _too_many(item: list[str]) -> HostlistError:
    return _error(item, f"the list names more than {MAX_HOSTS} hosts")


def _too_long(item: list[str], length: int) -> HostlistError:
    return _error(item, f"a name has {length} characters, the limit is {MAX_NAME}")


def _is_digits(text: str) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= MAX_NAME


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _error(item: list[str], why: str) -> HostlistError:
    """Return the error for an item that is cut at its brackets, or for the beginning of one."""
    text = "".join(part + "[]"[index % 2] for index, part in enumerate(item))
    return HostlistError(
        f"cannot read '{_short(text[: None if len(item) % 2 == 0 else -1])}': {why}"
    )
