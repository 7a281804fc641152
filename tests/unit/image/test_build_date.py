"""An image names the date of SOURCE_DATE_EPOCH, in the form in which the engines write one."""

import pytest

from lumicontainer.errors import InputError
from lumicontainer.image.build_date import label_of, read_build_date


@pytest.mark.parametrize(
    ("seconds", "date"),
    [
        ("0", "Thursday_1_January_1970_0:0:0_UTC"),
        ("1795858564", "Saturday_28_November_2026_9:36:4_UTC"),
        ("253402300799", "Friday_31_December_9999_23:59:59_UTC"),
    ],
)
def test_it_is_in_the_form_that_apptainer_writes(seconds: str, date: str) -> None:
    assert read_build_date({"SOURCE_DATE_EPOCH": seconds}) == date
    assert label_of(date) == {"org.label-schema.build-date": date}


@pytest.mark.parametrize("environment", [{}, {"SOURCE_DATE_EPOCH": ""}])
def test_without_it_there_is_no_label(environment: dict[str, str]) -> None:
    assert label_of(read_build_date(environment)) == {}


@pytest.mark.parametrize(
    "value", ["today", "-1", "1.5", "1e3", " 1", "1\n", "\u0661", "253402300800", "9" * 5000]
)
def test_what_is_no_moment_until_the_year_9999_is_refused(value: str) -> None:
    with pytest.raises(InputError) as refused:
        read_build_date({"SOURCE_DATE_EPOCH": value})
    (problem,) = refused.value.problems
    assert problem.what.startswith("invalid SOURCE_DATE_EPOCH '")
    assert len(problem.what) < 120
    assert problem.where == "SOURCE_DATE_EPOCH"
    assert problem.why == "expected whole seconds since 1970, from 0 to 253402300799"
    assert problem.hint.startswith("export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)")
