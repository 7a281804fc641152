"""What came of a check follows from how its processes ended, and what they measured."""

import json
from typing import Any

import pytest

from lumicontainer.inside.verify.outcome import (
    OUTCOMES,
    Outcome,
    from_plain,
    held_to_limits,
    judge,
    of_process,
    together,
)
from lumicontainer.inside.verify.process import Ended

FLOOR = {"unit": "GB/s", "minimum": 80, "source": "somebody"}


def came(
    code: int | None, output: str = "", *, report: str = "", why: str = "", **check: Any
) -> Outcome:
    ended = Ended(code, output, seconds=1.5, why=why)
    return of_process(ended, report, check={"timeout_seconds": 9, **check}, architecture="gfx90a")


@pytest.mark.parametrize(
    ("code", "state", "reason"),
    [
        (0, "passed", ""),
        (1, "failed", "last words"),
        (77, "skipped", "last words"),
        (70, "error", "ended with exit code 70\nlast words"),
        (-9, "error", "ended with signal 9\nlast words"),
        (None, "failed", "not finished after 9 s\nlast words"),
    ],
)
def test_each_way_to_end_is_an_outcome(code: int | None, state: str, reason: str) -> None:
    outcome = came(code, "last words\n")
    assert (outcome.state, outcome.reason) == (state, reason)


def test_what_was_ended_for_another_s_sake_says_so() -> None:
    outcome = came(None, why="rank 3 had failed")
    assert (outcome.state, outcome.halted, outcome.reason) == ("failed", True, "rank 3 had failed")


@pytest.mark.parametrize(
    ("limit", "value", "holds"),
    [
        ({"minimum": 80}, 80, True),
        ({"minimum": 80}, 79.9, False),
        ({"maximum": 3}, 3, True),
        ({"maximum": 3}, 3.1, False),
        ({"minimum": 80}, float("nan"), False),
        ({"maximum": 3}, float("-inf"), False),
        ({"minimum": 80}, "80", False),
        ({"minimum": 80}, None, False),
        ({"minimum": 80, "architecture": "gfx942"}, 1, None),
    ],
)
def test_a_value_holds_where_it_is_a_number_on_the_right_side(
    limit: dict[str, Any], value: Any, holds: bool | None
) -> None:
    row = judge({"measured": "x", "value": value}, {"thresholds": {"x": limit}}, "gfx90a")
    assert row["holds"] is holds
    json.dumps(row, allow_nan=False)


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("minimum", 12.5, "is 12.5 GB/s, less than 80 GB/s (somebody)"),
        ("maximum", 92.5, "is 92.5 GB/s, more than 80 GB/s (somebody)"),
        ("minimum", None, "is not a number, but must be no less than 80 GB/s (somebody)"),
        ("maximum", None, "is not a number, but must be no more than 80 GB/s (somebody)"),
    ],
)
def test_a_missed_threshold_fails_a_check_that_passed(
    limit: str, value: float | None, reason: str
) -> None:
    report = json.dumps({"measured": "busbw", "value": value})
    threshold = {limit: 80, "unit": "GB/s", "source": "somebody"}
    outcome = came(0, report=report, thresholds={"busbw": threshold})
    assert (outcome.state, outcome.reason) == ("failed", f"busbw {reason}")


@pytest.mark.parametrize(
    ("rows", "threshold", "state", "reason"),
    [
        ([{"measured": "busbw", "value": 99}], FLOOR, "passed", ""),
        ([], FLOOR, "skipped", "no measured value has a limit"),
        ([{"measured": "other", "value": 99}], FLOOR, "skipped", "no measured value has a limit"),
        ([{"fact": "unjudged", "value": "it is half a node"}], FLOOR, "skipped", "half a node"),
        (
            [{"measured": "busbw", "value": 99}],
            {**FLOOR, "architecture": "gfx942"},
            "skipped",
            "measured on gfx942, but this is gfx90a",
        ),
        ([], {"unit": "GB/s", "reference": 80, "source": "somebody"}, "passed", ""),
    ],
)
def test_a_check_that_is_held_to_none_of_its_limits_has_not_passed(
    rows: list[dict[str, Any]], threshold: dict[str, Any], state: str, reason: str
) -> None:
    check = {"thresholds": {"busbw": threshold}}
    report = "".join(f"{json.dumps(row)}\n" for row in rows)
    outcome = held_to_limits(came(0, report=report, **check), check)
    assert outcome.state == state
    assert reason in outcome.reason


def test_a_check_that_failed_is_not_skipped_for_its_limits() -> None:
    assert held_to_limits(came(1), {"thresholds": {"busbw": FLOOR}}).state == "failed"


@pytest.mark.parametrize("line", ['{"fact": "x", "val', "[1]", "3", '{"other": 1}', "", "\0"])
def test_a_line_of_a_report_that_is_none_is_passed_over(line: str) -> None:
    report = f'{line}\n{{"fact": "seen", "value": 1}}\n'
    assert came(0, report=report).facts == {"seen": 1}


def one(rank: int, state: str, reason: str = "", *, host: str = "nid1", **more: Any) -> Outcome:
    outcome = Outcome(state, reason, rank=rank, output=more.pop("output", ""))
    outcome.host = host
    for name, value in more.items():
        setattr(outcome, name, value)
    return outcome


def test_together_ranks_are_as_bad_as_the_worst_which_is_named() -> None:
    both = together([one(1, "failed", "broken", host="nid2"), one(0, "passed")])
    assert (both.state, both.rank, both.host) == ("failed", 1, "nid2")
    assert both.reason == "on rank 1 (nid2) of 2: broken"
    assert [row["state"] for row in both.ranks] == ["passed", "failed"]


@pytest.mark.parametrize(
    ("hosts", "named"), [("aa", "on rank 0, 1 (a) of 2: x"), ("ab", "on rank 0, 1 of 2: x")]
)
def test_a_node_is_named_if_it_is_the_only_one(hosts: str, named: str) -> None:
    both = [one(rank, "failed", "x", host=host) for rank, host in enumerate(hosts)]
    assert together(both).reason == named


ENDED = one(0, "failed", "ended", halted=True)


@pytest.mark.parametrize(
    ("others", "state", "reason"),
    [
        ([one(1, "failed", "the cause"), one(2, "passed")], "failed", "rank 1 (nid1) of 3: the"),
        ([one(1, "passed")], "failed", "on rank 0 (nid1) of 2: ended"),
        ([one(1, "skipped", "no moon")], "failed", "on rank 0 (nid1) of 2: ended"),
    ],
)
def test_a_rank_that_was_ended_for_another_is_not_the_cause_and_has_not_passed(
    others: list[Outcome], state: str, reason: str
) -> None:
    outcome = together([ENDED, *others])
    assert outcome.state == state
    assert reason in outcome.reason


@pytest.mark.parametrize("state", OUTCOMES)
def test_ranks_that_agree_give_the_outcome(state: str) -> None:
    assert together([one(rank, state, "so") for rank in range(3)]).state == state


def test_outputs_of_all_ranks_are_kept_with_their_names_and_not_without_end() -> None:
    long = "x" * (1 << 20)
    outcome = together([one(r, "failed", "so", output=f"{long}{r}") for r in range(4)])
    assert len(outcome.output) < (1 << 20) + 1000
    assert all(f"rank {rank} on nid1:\n" in outcome.output for rank in range(4))


def test_the_rarest_place_of_a_hang_comes_first() -> None:
    stack = (
        'Current thread 0x1 (most recent call first):\n  File "a.py", line {} in {}\n  File "b"\n'
    )
    every = [
        one(rank, "failed", "late\nlast", output=stack.format(7, "stuck" if rank == 2 else "wait"))
        for rank in range(4)
    ]
    assert together(every).reason.splitlines()[1:] == [
        'rank 2 is in: File "a.py", line 7 in stuck',
        'rank 0, 1, 3 is in: File "a.py", line 7 in wait',
    ]


def test_what_is_measured_says_on_which_rank() -> None:
    rows = [one(rank, "passed", measured=[{"name": "x"}]) for rank in range(2)]
    assert [row["rank"] for row in together(rows).measured] == [0, 1]


def test_an_outcome_comes_through_json_as_it_was() -> None:
    rows = [{"name": "x", "value": 2.5, "holds": None}]
    first = one(3, "failed", "so", facts={"a": [1]}, measured=rows)
    second = from_plain(json.loads(json.dumps(first.plain())))
    assert json.dumps(second.plain()) == json.dumps(first.plain())
    assert from_plain(first.plain()).plain() == first.plain()


@pytest.mark.parametrize(
    "change",
    [{"state": "perfect"}, {"state": 1}, {"reason": None}, {"facts": []}, {"ranks": {}}],
)
def test_what_is_no_outcome_is_refused(change: dict[str, Any]) -> None:
    plain = {**Outcome("passed").plain(), **change}
    with pytest.raises(ValueError, match=r"\w"):
        from_plain(plain)
