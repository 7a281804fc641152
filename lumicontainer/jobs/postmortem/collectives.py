"""Compare the collectives of all ranks: where they differ, and which rank never came.

Collectives are numbered in each process group. All ranks of a group must run the same ones in the
same order.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from lumicontainer.jobs.postmortem.reading.recorder import Collective, Dump

OTHER_SHAPE, OTHER_CALL, SKIPPED = "other shape", "other collective", "skipped"
ABSENT, SLOW, MISSING, STUCK = "never came", "came late", "no record", "all wait"
Calls = Mapping[int, Mapping[int, Collective]]
"""The collectives of each rank, by their numbers."""


class Difference(NamedTuple):
    """Hold where the ranks of a group diverge: the ranks that differ, and what both sides do."""

    kind: str
    number: int
    ranks: tuple[int, ...]
    """The ranks that do otherwise, or did not come."""
    others: tuple[int, ...]
    theirs: Collective | None
    """The call of ``ranks``; their last one if they did not come."""
    common: Collective
    """The call of the others."""


def compare(dumps: Sequence[Dump]) -> Difference | None:
    """Return the first difference, from which those in other groups follow."""
    by_group: dict[_Group, dict[int, dict[int, Collective]]] = defaultdict(dict)
    for dump in dumps:
        for call in dump.calls:
            if not call.peer_to_peer:
                members = dump.members.get(call.group) or dump.members.get("", ())
                group = by_group[call.group, tuple(members)]
                group.setdefault(dump.rank, {})[call.number] = call
    compared = (_compare_group(calls, members) for (_, members), calls in by_group.items())
    every = [difference for difference in compared if difference is not None]
    waiting = {rank for each in every if each.kind in _WAITED for rank in each.others}
    # A rank that others wait for can itself wait for another, in another group.
    return min(
        every,
        key=lambda each: (_KINDS.index(each.kind), bool(waiting & {*each.ranks})),
        default=None,
    )


_Group = tuple[str, tuple[int, ...]]
_KINDS = (OTHER_SHAPE, SKIPPED, OTHER_CALL, ABSENT, SLOW, MISSING, STUCK)
_WAITED = (ABSENT, MISSING, STUCK)
_SHARE = 0.8
"""Part of its patience by which a rank is late that the others did not wait for."""


def _compare_group(calls: Calls, members: Sequence[int]) -> Difference | None:
    first = max(min(numbers) for numbers in calls.values())
    ends = {rank: max(each) for rank, each in calls.items()}
    numbers = {number for each in calls.values() for number in each}
    for number in sorted(each for each in numbers if each >= first):
        present = {rank: each[number] for rank, each in calls.items() if number in each}
        if (difference := _part(number, present, calls)) is not None:
            return difference
        late = sorted(rank for rank, end in ends.items() if end < number)
        # A dump that is older than the others may lack what has ended.
        if late and not all(call.ended for call in present.values()):
            theirs = calls[late[0]][ends[late[0]]]
            rest = tuple(sorted(present))
            return Difference(ABSENT, number, tuple(late), rest, theirs, present[rest[0]])
    last = max(ends.values())
    present = {rank: each[last] for rank, each in calls.items() if last in each}
    if slow := _slow(present):
        rest = tuple(sorted(set(present) - set(slow)))
        return Difference(SLOW, last, slow, rest, present[slow[0]], present[rest[0]])
    waiting = [rank for rank, call in present.items() if not call.ended]
    absent = tuple(sorted(set(members) - set(calls)))
    call = present[min(present)]
    if absent:
        return Difference(MISSING, last, absent, tuple(sorted(calls)), None, call)
    if len(waiting) == len(present):
        return Difference(STUCK, last, (), tuple(sorted(calls)), None, call)
    return None


def _slow(present: Mapping[int, Collective]) -> tuple[int, ...]:
    """Return the ranks that called it when the patience of the others was nearly over."""
    usual = median(call.begun for call in present.values())
    late = (
        rank
        for rank, call in present.items()
        if call.patience and call.begun - usual > _SHARE * call.patience
    )
    return tuple(sorted(late))


def _part(number: int, present: Mapping[int, Collective], calls: Calls) -> Difference | None:
    """Return how the calls of one number differ."""
    count = Counter(call.alike for call in present.values())
    if len(count) < 2:
        return None
    usual = count.most_common(1)[0][0]
    others = tuple(sorted(rank for rank, call in present.items() if call.alike == usual))
    ranks = tuple(sorted(set(present) - set(others)))
    theirs, common = present[ranks[0]], present[others[0]]
    if theirs.place != common.place and _follows(calls[others[0]], number, common, theirs):
        kind = SKIPPED
    elif theirs.operation == common.operation:
        kind = OTHER_SHAPE
    else:
        kind = OTHER_CALL
    return Difference(kind, number, ranks, others, theirs, common)


def _follows(
    history: Mapping[int, Collective], number: int, common: Collective, theirs: Collective
) -> bool:
    """Return whether the others ran, in earlier rounds, ``theirs`` right after ``common``."""
    return any(
        call.place == common.place
        and (following := history.get(earlier + 1)) is not None
        and following.place == theirs.place
        for earlier, call in history.items()
        if earlier < number
    )
