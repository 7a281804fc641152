"""Sizes and ages as people read them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.errors import InputError
from lumicontainer.system import units
from lumicontainer.system.units import parse_size


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (8 << 30, "8.0 GiB"), (3 << 40, "3.0 TiB")],
)
def test_a_size_reads_in_the_unit_that_fits(number: int, text: str) -> None:
    assert units.size(number) == text


@given(st.integers(0, 1 << 44))
def test_a_size_in_words_can_be_given_as_a_size(number: int) -> None:
    assert parse_size(units.size(number), "--max-size") == pytest.approx(number, rel=0.05)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "just now"), (59, "just now"), (61, "1 min ago"), (7300, "2 h ago"), (2e5, "2 d ago")],
)
def test_an_age_reads_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert units.age(seconds) == text


def test_a_number_agrees_with_its_noun() -> None:
    assert (units.count(1, "object"), units.count(0, "object")) == ("1 object", "0 objects")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("0", 0), ("17", 17), ("500M", 500 << 20), ("8G", 8 << 30), ("1.5k", 1536)),
        *((" 8 GiB ", 8 << 30), ("2TB", 2 << 40), ("3B", 3)),
    ],
)
def test_a_size_is_read_as_it_is_written(text: str, size: int) -> None:
    assert parse_size(text, "--max-size") == size


@pytest.mark.parametrize(
    "text", ["", "G", "-1", "8X", "inf", "nan", "1e400", "8 G 1", "_1", "٣", "1\u212a", "9" * 400]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="invalid size"):
        parse_size(text, "--max-size")


@given(st.text())
def test_any_text_is_a_size_or_is_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert parse_size(text, "--max-size") >= 0
