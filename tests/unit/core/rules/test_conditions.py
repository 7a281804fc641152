"""A condition whose parts are not all known is decided as soon as one part decides it."""

import pytest

from lumicontainer.core.rules.conditions import Fact, is_met, parse

NAMES = ("rocm", "driver")


def met(version: str, *conditions: str) -> bool | None:
    """Return whether a version of ROCm meets conditions when nobody knows the driver."""
    read = [parse(each, NAMES) for each in conditions]
    return is_met("rocm", read, {"rocm": (Fact(version),)})


@pytest.mark.parametrize("condition", [">=7, >driver", ">driver, >=7"])
def test_one_term_that_is_false_decides_before_one_that_is_unknown(condition: str) -> None:
    assert met("6.4", condition) is False
    assert met("7.2", condition) is None


def test_one_condition_that_is_true_decides_before_one_that_is_unknown() -> None:
    assert met("6.4", ">driver", "6.4") is True
    assert met("6.4", ">driver", "7") is None
