"""The results of builds, as values."""

import pytest

from lumicontainer.api import Comparison
from lumicontainer.building.checks.reproducibility import ChangedFile


@pytest.mark.parametrize(
    ("reasons", "failed"), [((), False), (("a cache",), False), (("a cache", ""), True)]
)
def test_two_builds_that_differ_fail_unless_each_file_has_a_reason(
    reasons: tuple[str, ...], failed: bool
) -> None:
    files = [ChangedFile("python", "/opt/x", "content", reason) for reason in reasons]
    assert Comparison(2, files).failed == failed
