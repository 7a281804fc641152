"""A range says of a version what a person would take it to say."""

import pytest

from lumicontainer.inside.version_range import holds, parse_range, version


@pytest.mark.parametrize(
    ("text", "within", "outside"),
    [
        ("<6.2", ["6.1.3", "5.7", "6.1.99-48"], ["6.2", "6.2.0", "6.2.4", "10.0"]),
        (">=6.2,<7.0", ["6.2", "6.4.4-129", "6.10"], ["6.1.3", "7.0", "7.0.2"]),
        ("6.4", ["6.4", "6.4.0", "6.4.4"], ["6.3.4", "6.40", "7"]),
        ("7.0", ["7", "7.0.2"], ["7.1", "6.4"]),
        (">1", ["2", "10"], ["0", "1"]),
        ("1", ["1", "1.x git"], ["0", "2", "10"]),
        ("<= 1.20", ["v1.20.0", "1.9"], ["1.20.1", "1.21"]),
    ],
)
def test_a_range_holds_what_lies_in_it(text: str, within: list[str], outside: list[str]) -> None:
    assert [version for version in within if not holds(text, version)] == []
    assert [version for version in outside if holds(text, version)] == []


@pytest.mark.parametrize("text", ["", "<", "six", "<6.x", "6..2", "=6", "<6.2;>5", "~6.2", "06"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid limit"):
        parse_range(text)


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid version"):
        version("unknown")
