"""A range is refused if nothing lies in it, and a list of processors if it is malformed."""

import pytest

from lumicontainer.core.yaml.ranges import is_empty, whole
from lumicontainer.inside.version_range import parse_range


@pytest.mark.parametrize("text", [">2, <1", ">1, <1", ">=1, <1", ">1, <=1", ">=2, >3, <3"])
def test_nothing_lies_in_a_range_whose_limits_cross(text: str) -> None:
    assert is_empty(parse_range(text))


@pytest.mark.parametrize("text", [">=1, <=1", ">1", "<1", ">1, <1.1"])
def test_something_lies_in_other_ranges(text: str) -> None:
    assert not is_empty(parse_range(text))


def test_limits_of_whole_numbers_leave_no_gap() -> None:
    assert whole(parse_range(">1, <=3")) == [(">=", (2,)), ("<", (4,))]
    assert is_empty(whole(parse_range(">1, <2")))
