"""Expand Slurm's host lists as ``scontrol show hostnames`` does, which images do not have.

``nid[005001-005003,005010],login1`` names five hosts. A name may have several brackets; the last
one varies fastest, then the first, the second, and so on, as in Slurm
(``_push_range_list`` in src/common/hostlist.c). Slurm accepts text after the
last bracket since 23.02.5.
"""

import re

# Slurm's own limit (MAX_SLURM_NODES in slurm.h); it limits the work for a damaged list.
MAX_HOSTS = 65536
_ITEM = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


class HostlistError(ValueError):
    """Report the invalid part of a host list, and the reason."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"cannot read '{text if len(text) <= 60 else text[:57] + '...'}': {why}")


def expand(text: str) -> list[str]:
    """Return the hosts of ``text`` in Slurm's order, duplicates included.

    Raises HostlistError if the text is malformed, or has more than 65,536 hosts.
    """
    rest = _ITEM.sub("", text)
    if "[" in rest or "]" in rest:
        raise HostlistError(text, "each '[' needs a ']', and brackets cannot be nested")
    hosts: list[str] = []
    for item in _ITEM.findall(text):
        hosts += _hosts(item, MAX_HOSTS - len(hosts))
    return hosts


def _hosts(item: str, most: int) -> list[str]:
    *pairs, tail = _BRACKET.split(item)
    names = [""]
    for place, (stem, inner) in enumerate(zip(pairs[::2], pairs[1::2])):
        numbers = [stem + number for number in _numbers(item, inner, most // len(names))]
        if 2 * place + 2 < len(pairs):
            names = [name + number for number in numbers for name in names]
        else:
            names = [name + number for name in names for number in numbers]
    names = [name + tail for name in names]
    if len(names) > most:
        raise _too_many(item)
    return names


def _numbers(item: str, inner: str, most: int) -> list[str]:
    numbers: list[str] = []
    for part in inner.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise HostlistError(item, f"'{part[:60]}' is neither a number nor a range like 1-4")
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise HostlistError(item, f"the range '{part}' runs backwards")
        if len(numbers) + high - low >= most:
            raise _too_many(item)
        width = len(match[1])
        numbers += [f"{value:0{width}}" for value in range(low, high + 1)]
    return numbers


def _too_many(item: str) -> HostlistError:
    return HostlistError(item, f"the list names more than {MAX_HOSTS} hosts")
