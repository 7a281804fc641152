"""The outcome of a check follows from how its processes ended, and what they measured."""

import json
from typing import Any

import pytest

from lumicontainer.inside.verify.outcome import (
    OUTCOMES,
    Outcome,
    from_plain,
    held_to_limits,
    of_process,
    together,
)
from lumicontainer.inside.verify.process import Ended

UNIT = {"unit": "GB/s", "source": "somebody"}
FLOOR = {"minimum": 80, **UNIT}


def came(
    code: int | None, output: str = "", *, report: str = "", why: str = "", **check: Any
) -> Outcome:
    ended = Ended(code, output, seconds=1.5, why=why)
    return of_process(ended, report, check={"timeout_seconds": 9, **check}, architecture="gfx90a")


@pytest.mark.parametrize(
    ("code", "why", "state", "reason"),
    [
        (0, "", "passed", ""),
        (1, "", "failed", "last words"),
        (77, "", "skipped", "last words"),
        (70, "", "error", "ended with exit code 70\nlast words"),
        (-9, "", "error", "ended with signal 9\nlast words"),
        (None, "", "failed", "not finished after 9 s\nlast words"),
        (None, "rank 3 had failed", "failed", "rank 3 had failed\nlast words"),
    ],
)
def test_each_way_to_end_is_an_outcome(code: int | None, why: str, state: str, reason: str) -> None:
    outcome = came(code, "last words\n", why=why)
    assert (outcome.state, outcome.reason) == (state, reason)
    assert outcome.halted is bool(why)


@pytest.mark.parametrize(
    ("limit", "value", "missed"),
    [
        ({"minimum": 80}, 80, ""),
        ({"minimum": 80}, 79.9, "is 79.9 GB/s, less than 80 GB/s (somebody)"),
        ({"maximum": 3}, 3, ""),
        ({"maximum": 3}, 3.1, "is 3.1 GB/s, more than 3 GB/s (somebody)"),
        ({"minimum": 80}, float("nan"), "is not a number, but must be no less than 80 GB/s"),
        ({"maximum": 3}, float("-inf"), "is not a number, but must be no more than 3 GB/s"),
        pytest.param({"maximum": 3}, -(10**400), "is not a number", id="beyond floats"),
        ({"minimum": 80}, "80", "is not a number"),
        ({"minimum": 80}, None, "is not a number"),
        ({"minimum": 80, "architecture": "gfx942"}, 1, ""),
    ],
)
def test_a_value_that_is_not_a_number_on_the_right_side_fails_a_check_that_passed(
    limit: dict[str, Any], value: Any, missed: str
) -> None:
    report = json.dumps({"measured": "speed", "value": value})
    outcome = came(0, report=report, thresholds={"speed": {**limit, **UNIT}})
    assert outcome.state == ("failed" if missed else "passed")
    assert outcome.reason.startswith(f"speed {missed}" if missed else "")
    json.dumps(outcome.plain(), allow_nan=False)


MEASURED = {"measured": "busbw", "value": 99}


@pytest.mark.parametrize(
    ("row", "threshold", "state", "reason"),
    [
        (MEASURED, FLOOR, "passed", ""),
        ({}, FLOOR, "skipped", "no measured value has a limit"),
        ({"measured": "other", "value": 99}, FLOOR, "skipped", "no measured value has a limit"),
        ({"fact": "unjudged", "value": "it is half a node"}, FLOOR, "skipped", "half a node"),
        (MEASURED, {**FLOOR, "architecture": "gfx942"}, "skipped", "on gfx942, but this is gfx90a"),
        ({}, {"reference": 80, **UNIT}, "passed", ""),
    ],
)
def test_a_check_that_is_held_to_none_of_its_limits_has_not_passed(
    row: dict[str, Any], threshold: dict[str, Any], state: str, reason: str
) -> None:
    check = {"thresholds": {"busbw": threshold}}
    outcome = held_to_limits(came(0, report=json.dumps(row), **check), check)
    assert outcome.state == state
    assert reason in outcome.reason


def test_a_check_that_failed_is_not_skipped_for_its_limits() -> None:
    assert held_to_limits(came(1), {"thresholds": {"busbw": FLOOR}}).state == "failed"


@pytest.mark.parametrize("line", ['{"fact": "x", "val', "[1]", "3", '{"other": 1}', "", "\0"])
def test_a_line_that_is_no_report_is_passed_over(line: str) -> None:
    report = f'{line}\n{{"fact": "seen", "value": 1}}\n'
    assert came(0, report=report).facts == {"seen": 1}


def one(rank: int, state: str, reason: str = "", *, host: str = "nid1", **more: Any) -> Outcome:
    return Outcome(state, reason, rank=rank, host=host, **more)


ENDED = one(0, "failed", "ended", halted=True)
CAUSE = one(1, "failed", "the cause")
BROKEN = one(1, "failed", "broken", host="nid2")


@pytest.mark.parametrize(
    ("outcomes", "place", "reason"),
    [
        ([BROKEN, one(0, "passed")], (1, "nid2"), "on rank 1 (nid2) of 2: broken"),
        ([CAUSE, one(0, "failed", "x")], (0, "nid1"), "on rank 0, 1 (nid1) of 2: x"),
        ([BROKEN, one(0, "failed", "x")], (0, "nid1"), "on rank 0, 1 of 2: x"),
        # A rank that was ended for another is not the cause, and has not passed.
        ([ENDED, CAUSE, one(2, "passed")], (1, "nid1"), "on rank 1 (nid1) of 3: the cause"),
        ([ENDED, one(1, "passed")], (0, "nid1"), "on rank 0 (nid1) of 2: ended"),
        ([ENDED, one(1, "skipped", "no moon")], (0, "nid1"), "on rank 0 (nid1) of 2: ended"),
    ],
)
def test_together_ranks_are_as_bad_as_the_worst_which_is_named(
    outcomes: list[Outcome], place: tuple[int, str], reason: str
) -> None:
    outcome = together(outcomes)
    assert (outcome.state, outcome.reason) == ("failed", reason)
    assert (outcome.rank, outcome.host) == place
    states = [each.state for each in sorted(outcomes, key=lambda each: each.rank)]
    assert [row["state"] for row in outcome.ranks] == states


@pytest.mark.parametrize("state", OUTCOMES)
def test_ranks_that_agree_give_the_outcome(state: str) -> None:
    assert together([one(rank, state, "so") for rank in range(3)]).state == state


def test_outputs_of_all_ranks_are_kept_with_their_names_and_not_without_end() -> None:
    long = "x" * (1 << 20)
    outcome = together([one(r, "failed", "so", output=f"{long}{r}") for r in range(4)])
    assert len(outcome.output) < (1 << 20) + 1000
    assert all(f"rank {rank} on nid1:\n" in outcome.output for rank in range(4))


def test_the_rarest_place_of_a_hang_comes_first() -> None:
    stack = "Current thread 0x1 (most recent call first):\n  {}\n  File b\n"
    places = ["a.py in wait", "a.py in wait", "a.py in stuck", "a.py in wait"]
    every = [
        one(rank, "failed", "late\nlast", output=stack.format(place))
        for rank, place in enumerate(places)
    ]
    assert together(every).reason.splitlines()[1:] == [
        "rank 2 is in: a.py in stuck",
        "ranks 0, 1, 3 are in: a.py in wait",
    ]


STACK = "{} 0x1 (most recent call first):\n  {}\n  File b\n"
IN_MAIN, IN_STUCK = STACK.format("Current thread", "main"), STACK.format("Current thread", "stuck")
IN_WORKER = STACK.format("Thread", "worker")


@pytest.mark.parametrize(
    ("output", "places"),
    [
        ("silent\n", []),
        (IN_WORKER + IN_MAIN, ["it hangs in: main"]),
        (IN_WORKER, ["it hangs in: worker"]),
        (
            IN_MAIN * 2 + IN_STUCK,
            ["1 of 3 processes hangs in: stuck", "2 of 3 processes hang in: main"],
        ),
    ],
    ids=["no stack", "a thread", "no current thread", "several processes"],
)
def test_the_place_of_a_hang_comes_before_the_last_output(output: str, places: list[str]) -> None:
    reason = came(None, output + "x\n" * 30).reason.splitlines()
    assert reason == ["not finished after 9 s", *places, *["x"] * 20]


def test_what_is_measured_says_on_which_rank() -> None:
    rows = [one(rank, "passed", measured=[{"name": "x"}]) for rank in range(2)]
    assert [row["rank"] for row in together(rows).measured] == [0, 1]


def test_an_outcome_comes_through_json_as_it_was() -> None:
    rows = [{"name": "x", "value": 2.5, "holds": None}]
    first = one(3, "failed", "so", facts={"a": [1]}, measured=rows)
    assert from_plain(json.loads(json.dumps(first.plain()))) == first


@pytest.mark.parametrize(
    "change",
    [{"state": "perfect"}, {"state": 1}, {"reason": None}, {"facts": []}, {"ranks": {}}],
)
def test_what_is_no_outcome_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="outcome"):
        from_plain({**Outcome("passed").plain(), **change})
