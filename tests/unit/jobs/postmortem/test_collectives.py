"""The rank is named whose collectives differ from all others'."""

import pickle
from typing import Any

import pytest

from lumicontainer.jobs.postmortem import collectives
from lumicontainer.jobs.postmortem.collectives import Difference, compare
from lumicontainer.jobs.postmortem.reading.recorder import read_dump

from .leftovers import call, dump

ROUND = [call(1, line=7), call(2, size=32, line=9), call(3, line=7)]


def compared(*by_rank: list[dict[str, Any]]) -> Difference | None:
    ranks = range(len(by_rank))
    return compare([read_dump(dump(rows, ranks), rank) for rank, rows in enumerate(by_rank)])


CASES = {
    collectives.OTHER_SHAPE: [call(4, size=6, line=9)],
    collectives.OTHER_CALL: [call(4, "all_gather", line=20)],
    collectives.SKIPPED: [call(4, size=4, line=7)],
    collectives.ABSENT: [],
    collectives.SLOW: [call(4, size=32, line=9, time_created_ns=int(1_800_000_011e9))],
}


@pytest.mark.parametrize("kind", CASES)
def test_the_rank_that_does_otherwise_is_named(kind: str) -> None:
    usual = [*ROUND, call(4, size=32, line=9)]
    difference = compared(usual, usual, [*ROUND, *CASES[kind]], usual)
    assert difference is not None
    assert (difference.kind, difference.ranks, difference.number) == (kind, (2,), 4)
    assert difference.common.place.endswith("train.py:9")


def test_a_rank_without_a_record_is_named() -> None:
    rows = [read_dump(dump(ROUND, range(3)), rank) for rank in (0, 2)]
    difference = compare(rows)
    assert difference is not None
    assert (difference.kind, difference.ranks) == (collectives.MISSING, (1,))


def test_all_that_wait_in_one_collective_blame_nobody() -> None:
    difference = compared(ROUND, ROUND)
    assert difference is not None
    assert (difference.kind, difference.ranks) == (collectives.STUCK, ())


def test_collectives_that_ended_alike_do_not_differ() -> None:
    rows = [call(1, state="completed"), call(2, state="completed")]
    assert compared(rows, rows, rows) is None


def test_ranks_may_give_other_sizes_if_the_collective_allows_it() -> None:
    rows = [[call(1, "all_to_all", size, state="completed")] for size in (3, 4)]
    assert compared(*rows) is None


def test_old_records_that_some_ranks_have_overwritten_are_not_compared() -> None:
    assert (
        compared(
            [call(1, state="completed"), call(2, state="completed")], [call(2, state="completed")]
        )
        is None
    )


def test_a_rank_that_waits_for_another_in_another_group_is_not_blamed() -> None:
    """Rank 1 waits for rank 0, which waits for rank 2 in another group."""
    both = {"tp": {"desc": "", "ranks": "[0, 1]"}, "dp": {"desc": "", "ranks": "[0, 2]"}}
    dp, tp = {"process_group": ("dp", "")}, {"process_group": ("tp", "")}
    rows = {
        0: [call(1, **tp), call(1, **dp), call(2, size=9, **dp)],
        1: [call(1, **tp), call(2, size=9, **tp)],
        2: [call(1, **dp)],
    }
    dumps = [
        read_dump(pickle.dumps({"pg_config": both, "entries": each}), rank)
        for rank, each in rows.items()
    ]
    difference = compare(dumps)
    assert difference is not None
    assert (difference.kind, difference.ranks) == (collectives.ABSENT, (2,))


def test_groups_of_one_name_with_other_ranks_are_not_compared() -> None:
    rows = []
    for rank in range(4):
        ranks = "[0, 1]" if rank < 2 else "[2, 3]"
        groups = {"1": {"desc": "mesh", "ranks": ranks}}
        entries = [call(1, size=4 + rank // 2, process_group=("1", "mesh"), state="completed")]
        rows.append(read_dump(pickle.dumps({"pg_config": groups, "entries": entries}), rank))
    assert compare(rows) is None


def test_a_dump_that_is_older_than_the_others_is_no_difference() -> None:
    ended = [call(number, state="completed") for number in (1, 2)]
    assert compared(ended, ended[:1]) is None


def test_numbers_that_are_far_apart_are_compared_in_no_time() -> None:
    difference = compared([call(1), call(10**15, time_created_ns=1)], [call(1)])
    assert difference is not None
    assert (difference.kind, difference.ranks) == (collectives.ABSENT, (1,))
