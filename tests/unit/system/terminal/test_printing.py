"""The text of a result fits the terminal, and is whole elsewhere."""

import os
from collections.abc import Iterable
from contextlib import closing, redirect_stdout

import pytest

from lumicontainer.system.terminal.output import Output
from lumicontainer.system.terminal.printing import print_text
from lumicontainer.system.terminal.text import Folded, TextPart, TextTable

from ...terminals import Terminal

ROW = ("requirements/train.txt:12", "not carried", "-e git+https://example.org/x" * 2, "pin it")
WORDS = "apt libfabric1, apt libfabric-bin, pip numpy, pip scipy"


def printed(columns: int, parts: Iterable[TextPart]) -> list[str]:
    """Return the lines of a text on a real terminal."""
    with closing(Terminal(columns=columns)) as terminal:
        stream = os.fdopen(os.dup(terminal.stream.fileno()), "wb")
        with Output(stream, encoding="utf-8") as out, redirect_stdout(out):
            print_text(parts)
    return terminal.text.splitlines()


@pytest.mark.parametrize(("columns", "room"), [(80, 80 - 25 - 11 - 3 * 2), (50, 24)])
def test_a_narrow_terminal_cuts_a_column_and_shows_the_last_below(columns: int, room: int) -> None:
    first, *below = printed(columns, [TextTable([ROW], cut=2)])
    text = first.partition(ROW[1])[2].strip()
    assert text == f"{ROW[2][: room - 1]}…"
    assert " ".join(map(str.strip, below)) == ROW[3]


def test_a_wide_terminal_and_a_file_show_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [TextTable([ROW], cut=2)]
    print_text(parts)
    line = capsys.readouterr().out.rstrip("\n")
    assert line.split("  ") == ["", *ROW]
    assert printed(120, parts) == [line]


def test_a_list_is_folded_to_its_usual_width_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    print_text([Folded("  ", WORDS, "      ", usual=40)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 40
    assert " ".join(map(str.strip, lines)) == WORDS


def test_a_line_of_a_result_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(["one\ntwo\x1b[2J", Folded("  ", "three\nfour")])
    assert capsys.readouterr().out == "one\\ntwo\\x1b[2J\n  three\\nfour\n"
