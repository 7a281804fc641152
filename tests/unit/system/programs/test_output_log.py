"""A log has a bound: of a long output it holds the beginning and the end, and no secret."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.system.process import last_lines
from lumicontainer.system.programs import output_log
from lumicontainer.system.programs.output_log import OutputLog, read_end

from ...cpu import within

CHUNK = 1 << 16
MUCH = 100_000_000
SECONDS = 40.0
"""More than 10 times what that takes."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_log, "HEAD", 20_000)
    monkeypatch.setattr(output_log, "TAIL", 3 * CHUNK)


def write(
    output: bytes,
    size: int = CHUNK,
    on_line: Callable[[str], None] = lambda _: None,
    on_cut: Callable[[], None] = lambda: None,
) -> str:
    """Return the log of an output that arrives in chunks of a size."""
    file = io.StringIO()
    log = OutputLog(file, on_line, on_cut)
    for at in range(0, len(output), size):
        log.add(output[at : at + size])
    log.close()
    return file.getvalue()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [1000, CHUNK])
def test_a_log_of_a_long_output_has_its_beginning_and_its_end(size: int) -> None:
    cuts = list[None]()
    rows = [f"row {number}" for number in range(100_000)]
    log = write("\n".join(rows).encode(), size, on_cut=lambda: cuts.append(None))
    first, left_out, last = re.split(r"(\[[0-9.]+ [KM]iB of output are left out here\])\n", log)
    head, end = first.splitlines(), last.splitlines()
    assert left_out
    assert cuts == [None]
    assert len(head) > 100
    assert len(end) > 10_000
    assert head == rows[: len(head)]
    assert end == rows[-len(end) :]


@pytest.mark.usefixtures("small")
def test_progress_shows_lines_behind_the_beginning_of_a_log(secret: str) -> None:
    shown = list[str]()
    rows = "".join(f"row {number} {secret}\n" for number in range(5000))
    write(rows.encode(), 25, shown.append)
    assert "row 4998 ***" in shown


@pytest.mark.parametrize("text", [b"\x1b]x\n", b"\x1b\n", b"x\r\n"], ids=repr)
def test_no_sequence_ends_in_another_line(text: bytes) -> None:
    assert write(text + b"next\n").splitlines()[-1] == "next"


@pytest.mark.usefixtures("small")
def test_a_log_that_needs_no_bound_is_whole() -> None:
    rows = "".join(f"row {number}\n" for number in range(10_000))
    assert write(rows.encode(), on_cut=pytest.fail) == rows


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("end", ["", "\n"])
def test_no_part_of_a_secret_is_in_a_log_that_is_cut(secret: str, end: str) -> None:
    text = f"x{secret}{end}".encode()
    for size in (CHUNK, CHUNK - 7, 999):
        log = write(text * (8 * CHUNK // len(text)), size)
        assert "left out" in log
        assert set(re.sub(r"\[.*\]", "", log)) == set("x*\n")


@pytest.mark.slow
@pytest.mark.parametrize("text", [b"x", b"\0", b"y\n"], ids=repr)
def test_much_output_is_cheap_and_its_log_is_bounded(text: bytes) -> None:
    with within(SECONDS):
        size = len(write(text * (MUCH // len(text))))
    assert size <= output_log.HEAD + output_log.TAIL + CHUNK


def test_a_message_shows_a_bounded_part_of_long_lines_and_no_part_of_a_secret(secret: str) -> None:
    shown = last_lines(f"{secret}" * 10_000)
    assert len(shown) < 30_000
    assert set(shown) == set("…*")


def test_the_end_of_a_log_shows_no_part_of_a_secret(secret: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for before in range(20):
        log.write_text("x" * before + secret * 50_000)
        assert set(read_end(log)) == {"*"}
    log.write_text(f"x{secret}\n")
    assert read_end(log) == "x***\n"
