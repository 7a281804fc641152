"""Output is divided into lines in linear time, and no part of a secret is shown."""

import asyncio
import io
import sys

import pytest

from lumicontainer.system import process
from lumicontainer.system.programs import logged
from lumicontainer.system.programs.output_log import LONGEST, Lines

from ...cpu import within

CHUNK = 1 << 16
SECONDS = 20.0
"""More than 20 times what 16 MB take; quadratic reading takes minutes."""


def read(text: bytes, size: int) -> list[str]:
    """Return the lines of a text that arrives in chunks of a size."""
    lines = Lines()
    pieces = [line for at in range(0, len(text), size) for line in lines.add(text[at : at + size])]
    return [*pieces, *filter(None, [lines.rest()])]


@pytest.mark.slow
@pytest.mark.parametrize("end", [b"", b"\r", b"\x1b[31m", b"\x1b", b"\xe2\x82"])
def test_output_without_newlines_is_read_in_linear_time(end: bytes) -> None:
    chunk = b"x" * (CHUNK - len(end)) + end
    lines = Lines()
    with within(SECONDS):
        longest = max(len(line) for _ in range(256) for line in [*lines.add(chunk), ""])
    assert longest <= 4 * LONGEST


@pytest.mark.slow
@pytest.mark.parametrize(("end", "kept"), [("", 512), (r"\r", 1)])
def test_a_log_of_a_step_without_newlines_is_written_in_linear_time(end: str, kept: int) -> None:
    script = f"import sys\nfor _ in range(512): sys.stdout.write('x' * {CHUNK} + '{end}')"
    log, shown = io.StringIO(), list[str]()
    with within(SECONDS):
        status = asyncio.run(
            logged.run_logged([sys.executable, "-c", script], log, on_line=shown.append)
        )
    assert status == 0
    assert log.getvalue().count("x") >= kept * CHUNK
    assert max(map(len, shown)) <= 4 * LONGEST


@pytest.mark.parametrize("size", [1000, 4096, CHUNK - 1])
def test_a_long_line_is_whole_and_shows_no_part_of_a_secret(secret: str, size: int) -> None:
    text = "".join(f"{number:06}{secret}€\x1b[1m" for number in range(9000))
    pieces = read(f"{text}\nend\n".encode(), size)
    assert "".join(pieces[:-1]) == "".join(f"{number:06}***€" for number in range(9000))
    assert len(pieces) > 2
    assert pieces[-1] == "end"


def test_a_secret_in_a_long_line_is_known_although_a_sequence_splits_it(secret: str) -> None:
    parts = f"{secret[:5]}\x1b[0m{secret[5:]}"
    for before in range(LONGEST - 40, LONGEST + 80):
        shown = "".join(read(b"x" * before + parts.encode() + b"y" * CHUNK, before + 7))
        assert shown == f"{'x' * before}***{'y' * CHUNK}", before


def test_a_line_that_a_progress_bar_overwrites_is_shown_and_kept_once() -> None:
    lines = Lines()
    assert [*lines.add(b"a\r1 %\r2 %")] == []
    assert lines.unfinished() == "2 %"
    assert [*lines.add(b"\r3 %\r")] == []
    assert lines.unfinished() == "3 %"
    assert [*lines.add(b"\ndone\nrest")] == ["3 %", "done"]
    assert lines.rest() == "rest"


@pytest.mark.slow
def test_a_row_of_a_listing_without_an_end_is_refused() -> None:
    script = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(process.OverLimitError, match="a line of more than 1 MiB"):
        list(process.lines([sys.executable, "-c", script]))
