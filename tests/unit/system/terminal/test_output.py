"""Text for people cannot steer a terminal; what programs read arrives byte for byte."""

import io
import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.errors import Problem
from lumicontainer.frontends.bash import word
from lumicontainer.system.process import trace
from lumicontainer.system.terminal import output
from lumicontainer.system.terminal.output import Output, line, printable

JOINERS = "\u200c\u200d\u00ad"
hostile = st.text(st.characters() | st.sampled_from("\x1b\x9b\x7f\r\b\u202e\u2066\u2028\t\n"))


def steers(text: str) -> list[str]:
    """Return the characters of a text that a terminal would obey, or not show."""
    return [char for char in text if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]


@given(hostile)
def test_no_character_of_printable_text_steers_a_terminal(text: str) -> None:
    shown = printable(text)
    assert set(steers(shown)) <= {"\n", "\t"}
    bidi = [char for char in shown if unicodedata.bidirectional(char) in DIRECTIONS]
    assert bidi == []
    assert printable(shown) == shown


DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, text) for text in ("two\nlines\tand a tab", "Ünï …✓ 漢字", f"क{JOINERS}ष")),
        *(("\x1b[2J", r"\x1b[2J"), ("\u202egnp", r"\u202egnp"), ("\U000e0041", r"\U000e0041")),
    ],
)
def test_what_steers_is_shown_by_its_number_and_letters_stay(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(hostile)
def test_a_value_stays_within_its_line(text: str) -> None:
    assert set(steers(line(text))) == set()


def of(encoding: str) -> tuple[io.BytesIO, Output]:
    raw = io.BytesIO()
    return raw, Output(raw, encoding=encoding, errors="backslashreplace", newline="")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_a_document_is_always_utf8(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, out = of(encoding)
    out.write("…\x1b\n")
    monkeypatch.setattr(sys, "stdout", out)
    output.write_document("a … \x1b[1m \udcff\n")
    out.flush()
    first, _, second = raw.getvalue().partition(b"\n")
    assert b"\x1b" not in first
    assert first.endswith(rb"\x1b")
    assert second == "a … \x1b[1m ".encode() + b"\xff\n"


def test_our_own_sequences_reach_the_terminal_and_the_texts_do_not() -> None:
    raw, out = of("utf-8")
    output.write(out, "\x1b[1A", raw=True)
    output.write(out, "\x1b[2J")
    out.flush()
    assert raw.getvalue() == b"\x1b[1A\\x1b[2J"


@given(hostile)
def test_json_is_plain_ascii_and_means_the_same(text: str) -> None:
    printed = output.as_json({text: text})
    assert printed.isascii()
    assert printed.isprintable()
    assert json.loads(printed) == {text: text}


@pytest.mark.slow
@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])))
def test_a_word_for_bash_is_one_line_and_arrives_as_it_is(text: str) -> None:
    written = word(text)
    assert steers(written) == []
    command = ["bash", "-c", f"printf %s {written}"]
    assert subprocess.run(command, capture_output=True, env={}, check=True).stdout == text.encode()


def test_no_line_of_a_value_in_a_message_looks_like_another_message() -> None:
    printed = str(Problem("no 'a\nerror: b'", "c\nd", "e\nf", "g\nh"))
    assert [text for text in printed.splitlines() if not text.startswith(" ")] == ["error: no 'a"]


def test_a_command_is_reported_without_passwords(capsys: pytest.CaptureFixture[str]) -> None:
    output.set_talk(output.VERBOSE)
    try:
        trace(["pip", "--index-url", "https://me:secret@site.example/simple", "a b"])
    finally:
        output.set_talk(output.NORMAL)
    printed = capsys.readouterr().err
    assert printed == "+ pip --index-url https://***@site.example/simple 'a b'\n"
