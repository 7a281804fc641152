"""Expand Slurm's host lists as ``scontrol show hostnames`` does, which images do not have.

``nid[005001-005003,005010],login1`` names five hosts. A name may have several brackets; the last
one varies fastest, then the first, the second, and so on, as in Slurm
(``_push_range_list`` in src/common/hostlist.c). Slurm accepts text after the
last bracket since 23.02.5.
"""

from __future__ import annotations

MAX_HOSTS = 65536
"""Slurm's own limit (MAX_SLURM_NODES in slurm.h); it limits the work for a hostile list."""
MAX_NAME = 255
"""Longer than any host name (RFC 1035); it limits the work for one host."""


class HostlistError(ValueError):
    """Report the invalid part of a host list, and the reason."""


def expand(text: str) -> list[str]:
    """Return the hosts of ``text`` in Slurm's order, duplicates included.

    Raises HostlistError if the text is malformed, has more than 65,536 hosts, or a host with more
    than 255 characters.
    """
    return _read(text, whole=True)


def first(text: str) -> str:
    """Return the first host of ``text``, or "", without expanding ranges.

    Raises HostlistError if ``expand`` does.
    """
    return next(iter(_read(text, whole=False)), "")


def _read(text: str, *, whole: bool) -> list[str]:
    """Return the hosts; if not ``whole``, only the first one of each item of the list."""
    head, brackets = _cut(text)
    hosts, stem = _plain(head)
    unmade = 0
    # The hosts of the current item begin with one of these names, followed by the stem.
    names, count = [""], 1
    for inner, after in brackets:
        tail, ended, rest = after.partition(",")
        low, dash, high = inner.partition("-")
        # If there are many brackets, most of them hold one number.
        if (low == high or not dash) and low.isdigit() and low.isascii():
            stem += low + tail
        else:
            room = (MAX_HOSTS - len(hosts) - unmade) // count
            numbers, more = _numbers(inner, stem, room, whole)
            names, count = _product(names, stem, numbers, bool(ended)), count * more
            stem = tail
        if len(stem) > MAX_NAME:
            raise _too_long(stem)
        if ended:
            hosts += [name + stem for name in names] if whole else [names[0] + stem]
            unmade += 0 if whole else count - 1
            names, count, stem = [""], 1, rest
            if "," in rest:
                plain, stem = _plain(rest)
                hosts += plain
    return _checked(hosts, unmade)


def _cut(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the text before the first bracket; of each bracket the content and the text after it.

    Outside brackets white space becomes commas, and one is added, so a comma ends each item.
    """
    whole = " ".join([*text.split(), ""])
    head, *pieces = whole.replace("]", "[").split("[")
    inside, outside = pieces[::2], pieces[1::2]
    if head + "".join([f"[{inner}]{after}" for inner, after in zip(inside, outside)]) != whole:
        raise _unbalanced(whole)
    return head.replace(" ", ","), list(zip(inside, [each.replace(" ", ",") for each in outside]))


def _plain(text: str) -> tuple[list[str], str]:
    """Return the names that end with a comma, and the text after the last comma."""
    *names, rest = text.split(",")
    return [name for name in names if name], rest


def _product(names: list[str], stem: str, numbers: list[str], last: bool) -> list[str]:
    """Return each name followed by the stem and each number."""
    if last:
        return [name + stem + number for name in names for number in numbers]
    made = [name + stem + number for number in numbers for name in names]
    # Many brackets could make the names too long and too many.
    if len(names) > 1 and len(max(made, key=len)) > MAX_NAME:
        raise _too_long(max(made, key=len))
    return made


def _numbers(inner: str, stem: str, room: int, whole: bool) -> tuple[list[str], int]:
    """Return a bracket's numbers and their count; if not ``whole``, only the ends of ranges."""
    numbers: list[str] = []
    left = room
    for part in inner.split(","):
        low, dash, high = part.partition("-")
        if not (low.isdigit() and (high.isdigit() or not dash) and part.isascii()):
            why = f"'{_short(part)}' is neither a number nor a range like 1-4"
            raise _error(f"{stem}[{inner}]", why)
        numbers.append(low)
        left -= 1
        if dash and low != high and left >= 0:
            if len(part) > MAX_NAME:
                raise _too_long(part)
            start, end = int(low), int(high)
            left -= end - start
            if start > end:
                raise _error(f"{stem}[{inner}]", f"the range '{_short(part)}' runs backwards")
            if left >= 0:
                values = range(start + 1, end + 1) if whole else (end,)
                numbers += [str(value).zfill(len(low)) for value in values]
    if left < 0:
        raise _too_many(f"{stem}[{inner}]")
    return numbers, room - left


def _checked(hosts: list[str], unmade: int) -> list[str]:
    if len(hosts) + unmade > MAX_HOSTS:
        raise _too_many(hosts[0])
    longest = max(hosts, key=len, default="")
    if len(longest) > MAX_NAME:
        raise _too_long(longest)
    return hosts


def _unbalanced(text: str) -> HostlistError:
    """Return the error for unbalanced brackets."""
    *pieces, rest = text.replace(" ", ",").rstrip(",").split("]")
    item = ""
    for piece in pieces:
        head, opened, inner = piece.partition("[")
        begin = head.rfind(",") + 1
        item = f"{'' if begin else item}{piece[begin:]}]"
        if not opened:
            return _error(item, "a bracket is closed that was not opened")
        if "[" in inner:
            return _error(item, "a bracket inside a bracket")
    begin = rest.partition("[")[0].rfind(",") + 1
    return _error(f"{'' if begin else item}{rest[begin:]}", "a bracket is not closed")


def _too_many(text: str) -> HostlistError:
    return _error(text, f"the list names more than {MAX_HOSTS} hosts")


def _too_long(name: str) -> HostlistError:
    return _error(name, f"a name has more than {MAX_NAME} characters")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _error(text: str, why: str) -> HostlistError:
    return HostlistError(f"cannot read '{_short(text)}': {why}")
