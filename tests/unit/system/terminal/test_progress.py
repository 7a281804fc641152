"""Progress is printed as lines that are redrawn on a terminal, and never harms the work."""

import io
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress

import pytest

from lumicontainer.system.terminal import output
from lumicontainer.system.terminal.progress import Progress

from ...terminals import DEADLINE, Terminal, cells, until

NEVER = 3600.0


@pytest.fixture(autouse=True)
def _capable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TERM", "xterm")
    yield
    output.set_talk(output.NORMAL)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with closing(Terminal()) as made:
        yield made


@pytest.fixture
def narrow() -> Iterator[Terminal]:
    with closing(Terminal(columns=40, height=10)) as made:
        yield made


# On a terminal


def test_finished_steps_stay_with_their_time_and_nothing_else_does(terminal: Terminal) -> None:
    with Progress(stream=terminal.stream) as progress:
        progress.expect(12)
        progress.cached("python", "since Monday")
        with progress.step("pytorch") as task:
            task.line("unpacking")
            until(lambda: "unpacking" in terminal.text)
    screen = terminal.screen()
    assert screen.rows[0] == "[ 1/12] python              cached  since Monday"
    assert re.fullmatch(r"\[ 2/12\] pytorch             \d+\.\d s", screen.rows[1])
    assert set(screen.rows[2:]) == {""}
    assert (screen.row, screen.column) == (2, 0)
    assert list(progress.times) == ["pytorch"]


def test_each_running_step_shows_its_time_and_its_newest_line(terminal: Terminal) -> None:
    with (
        Progress(stream=terminal.stream) as progress,
        progress.step("one") as one,
        progress.step("two") as two,
    ):
        one.line("first of one")
        one.line("second of one")
        two.line("\tof   two\n")
        until(lambda: "of two" in terminal.text)
    terminal.finish()
    frame = next(frame for frame in terminal.frames() if any("of two" in line for line in frame))
    shown = [re.sub(r" +(\d+ s)? *", " ", line).strip() for line in frame]
    assert shown == ["one second of one", "two of two"]


def test_a_thousand_lines_in_a_second_are_at_most_ten_redraws(terminal: Terminal) -> None:
    begun = time.monotonic()
    with Progress(stream=terminal.stream) as progress, progress.step("noisy") as task:
        for number in range(1000):
            task.line(f"line {number}")
            progress.say(f"talk {number}")
            time.sleep(0.001)
        until(lambda: "line 999" in terminal.text)
    elapsed = time.monotonic() - begun
    screen = terminal.screen()
    # Three more: the first, and when the block is left the last one and rich's.
    assert 2 <= len(terminal.frames()) <= 10 * elapsed + 3
    assert screen.rows[:1000] == [f"talk {number}" for number in range(1000)]


def test_lines_are_cut_to_the_width_also_where_characters_are_wide(narrow: Terminal) -> None:
    with Progress(stream=narrow.stream) as progress, progress.step("wide") as task:
        for text in ("x" * 100, "漢字" * 50, "e\N{COMBINING ACUTE ACCENT}" * 50, "🚀a" * 50):
            task.line(text)
            until(lambda text=text: text[:4] in narrow.text)
    screen = narrow.screen()
    assert screen.wraps == 0
    widths = [cells(line) for frame in narrow.frames() for line in frame]
    assert 38 <= max(widths) <= 40


def test_a_terminal_that_becomes_narrower_gets_shorter_lines(terminal: Terminal) -> None:
    def widest() -> int:
        return max((cells(line) for frame in terminal.frames()[-2:-1] for line in frame), default=0)

    with Progress(stream=terminal.stream) as progress, progress.step("long") as task:
        numbers = iter(range(10**9))
        until(lambda: task.line(f"{next(numbers)} {'x' * 200}") or widest() == 80)
        terminal.resize(30, 24)
        until(lambda: task.line(f"{next(numbers)} {'x' * 200}") or widest() == 30)


def test_more_steps_than_the_terminal_is_high_end_in_an_ellipsis(narrow: Terminal) -> None:
    with Progress(stream=narrow.stream) as progress, ExitStack() as stack:
        for number in range(30):
            stack.enter_context(progress.step(f"step-{number}"))
        until(lambda: "..." in narrow.text)
        shown = len(narrow.frames())
    rows = [row for row in narrow.screen().rows if row]
    assert len(narrow.frames()[shown - 1]) == 10
    assert [row.split()[1] for row in rows] == [f"step-{29 - n}" for n in range(30)]


def test_an_exception_passes_and_leaves_the_terminal_right(terminal: Terminal) -> None:
    error = ValueError()
    with (
        pytest.raises(ValueError) as raised,
        Progress(stream=terminal.stream) as progress,
        progress.step("broken"),
    ):
        until(lambda: "broken" in terminal.text)
        raise error
    assert raised.value is error
    screen = terminal.screen()
    assert re.fullmatch(r" +broken +not finished after \d+\.\d s", screen.rows[0])
    assert set(screen.rows[1:]) == {""}
    assert (screen.row, screen.column) == (1, 0)
    assert progress.times == {}


def test_talk_and_ends_from_many_threads_are_not_torn(narrow: Terminal) -> None:
    def work(progress: Progress, name: str) -> None:
        for number in range(20):
            with progress.step(f"{name}-{number}") as task:
                task.line("z" * 50)
                progress.say(f"talk of {name} {number}")
                time.sleep(0.005)

    with Progress(stream=narrow.stream) as progress:
        progress.expect(80)
        with ThreadPoolExecutor(4) as threads:
            threads.map(work, [progress] * 4, [f"t{index}" for index in range(4)])
    screen = narrow.screen()
    talk = {row for row in screen.rows if row.startswith("talk")}
    ends = [row for row in screen.rows if re.fullmatch(r"\[.\d/80\] t\d-\d+ +\d\.\d s", row)]
    assert talk == {f"talk of t{index} {number}" for index in range(4) for number in range(20)}
    assert [int(row[1:3]) for row in ends] == list(range(1, 81))
    assert len(list(filter(None, screen.rows))) == 160


def test_talk_outside_of_the_block_is_not_lost(terminal: Terminal) -> None:
    progress = Progress(stream=terminal.stream)
    progress.say("before")
    with progress:
        pass
    progress.say("after")
    assert terminal.screen().rows == ["before", "after", ""]


@pytest.mark.parametrize(("form", "kind"), [("plain", "xterm"), ("auto", "dumb")])
def test_a_terminal_can_be_given_a_log(
    form: str, kind: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", kind)
    with Progress(form, stream=terminal.stream) as progress, progress.step("one"):
        pass
    terminal.finish()
    assert "one                 begins" in terminal.text
    assert "\x1b" not in terminal.text


# Whatever its form


SINKS = {
    "a closed pipe": os.pipe,
    "a closed terminal": pty.openpty,
    "a full disk": lambda: (os.open("/", os.O_RDONLY), os.open("/dev/full", os.O_WRONLY)),
}
"""Open a stream whose writing end takes no text once its reading end is closed."""


@pytest.mark.parametrize("form", ["auto", "json"])
@pytest.mark.parametrize("sink", SINKS)
def test_a_stream_that_takes_no_text_does_not_stop_the_work(sink: str, form: str) -> None:
    reader, writer = SINKS[sink]()
    stream = os.fdopen(writer, "w")
    with Progress(form, stream=stream, heartbeat=0.0) as progress, progress.step("one") as task:
        os.close(reader)
        task.line("nobody reads this")
        progress.say("nor this")
    assert list(progress.times) == ["one"]
    # It tries once more to write.
    with suppress(OSError):
        stream.close()


@pytest.mark.slow
def test_a_closed_pipe_does_not_change_the_exit_code() -> None:
    program = (
        "from lumicontainer.system.terminal.progress import Progress\n"
        "with Progress() as progress, progress.step('one'):\n"
        "    progress.say('nobody reads this')\n"
        "print('the result')\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, stderr=writer, stdout=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, b"the result\n")


@pytest.mark.parametrize("form", ["plain", "json"])
def test_leaving_the_block_stops_its_thread_without_waiting_for_a_heartbeat(form: str) -> None:
    before, begun = set(threading.enumerate()), time.monotonic()
    with Progress(form, stream=io.StringIO(), heartbeat=NEVER):
        (ticker,) = set(threading.enumerate()) - before
    assert not ticker.is_alive()
    assert time.monotonic() - begun < DEADLINE


# As much as is asked for


def printed_by_a_work(form: str, talk: int) -> str:
    stream = io.StringIO()
    output.set_talk(talk)
    with Progress(form, stream=stream, heartbeat=NEVER) as progress:
        with progress.step("base") as task:
            task.line("unpacking")
        with suppress(ValueError), progress.step("python"):
            raise ValueError
        progress.say("passed x")
        with progress.step("verify") as task:
            task.line("passed x")
    return stream.getvalue()


@pytest.mark.parametrize("form", ["auto", "plain", "json"])
def test_a_quiet_work_prints_nothing(form: str) -> None:
    assert printed_by_a_work(form, output.QUIET) == ""


def test_a_verbose_work_prints_each_line_of_a_step_once() -> None:
    printed = printed_by_a_work("auto", output.VERBOSE)
    assert re.search(r"^\d\d:\d\d:\d\d base: unpacking$", printed, re.MULTILINE)
    assert printed.count("passed x") == 1


def test_neither_sequences_nor_markup_of_a_step_have_an_effect(terminal: Terminal) -> None:
    with Progress(stream=terminal.stream) as progress, progress.step("base") as task:
        task.line("\x1b]0;owned\x07 [bold]line[/] :wave:")
        until(lambda: "[bold]line[/] :wave:" in terminal.text)
        progress.say("\x1b[31mred\rover [bold]talk[/] :wave:")
    terminal.finish()
    assert "\x1b]" not in terminal.text
    assert r"\x1b[31mred\rover [bold]talk[/] :wave:" in terminal.text
