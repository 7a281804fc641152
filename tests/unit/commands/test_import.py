"""Results of ``import`` fit the terminal."""

import importlib

import pytest

verb = importlib.import_module("lumicontainer.commands.import")
ROW = ("requirements/train.txt:12", "not carried", "-e git+https://example.org/x" * 2, "pin it")


@pytest.mark.parametrize(("width", "room"), [(80, 80 - 25 - 11 - 6), (50, 24), (0, 56)])
def test_the_text_of_a_line_leaves_its_columns_to_others(
    monkeypatch: pytest.MonkeyPatch, width: int, room: int
) -> None:
    monkeypatch.setattr(verb, "columns", lambda usual: width or usual)
    ((place, outcome, text, note),) = verb._fit([ROW])
    assert (place, outcome, note) == (*ROW[:2], ROW[3])
    assert len(text) == room
    assert text.endswith("…") == (room < len(ROW[2]))
