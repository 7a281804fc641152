"""Progress in a log has a line for each step, and as JSON an object for each event."""

import io
import json
import re
import time
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from lumicontainer.system.terminal.progress import Progress

from ...terminals import until

NEVER = 3600.0


@pytest.fixture(autouse=True)
def _capable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def log_lines(stream: io.StringIO) -> list[str]:
    """Return the lines of a log without their time of day."""
    lines = stream.getvalue().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines), lines
    return [line[9:] for line in lines]


def events(stream: io.StringIO, *names: str) -> list[dict[str, object]]:
    printed = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [event for event in printed if not names or event["event"] in names]


# In a log


def test_a_log_reports_when_steps_begin_and_how_they_end(stream: io.StringIO) -> None:
    with Progress(stream=stream, heartbeat=NEVER) as progress:
        progress.expect(3)
        progress.cached("base")
        progress.say("two\nlines")
        with suppress(KeyError), progress.step("broken"):
            raise KeyError
        with progress.step("python") as task:
            task.line("not printed: the step is not silent")
            task.reached(1, 2)
            task.waiting("waiting for host n1")
            task.waiting("")
            task.waiting("waiting for host n2")
        with progress.step("torch") as task:
            task.note_origin("made by host n2")
    lines = [re.sub(r"\d+\.\d s", "N s", line) for line in log_lines(stream)]
    assert lines == [
        "[1/3] base                cached",
        "two",
        "lines",
        "      broken              begins",
        "      broken              not finished after N s",
        "      python              begins",
        "      python              waiting for host n1",
        "      python              waiting for host n2",
        "[2/3] python              N s",
        "      torch               begins",
        "[3/3] torch               cached  made by host n2",
    ]
    assert list(progress.times) == ["python"]


def test_a_heartbeat_reports_the_newest_line_and_then_the_silence(stream: io.StringIO) -> None:
    with Progress(stream=stream, heartbeat=0.3) as progress, progress.step("slow") as task:
        until(lambda: task.line("compiling") or re.search(r"\d s  compiling$", stream.getvalue()))
        until(lambda: re.search(r"  no output for \d+ s, after: compiling$", stream.getvalue()))


def test_a_heartbeat_reports_how_far_a_step_is_or_what_it_waits_for(stream: io.StringIO) -> None:
    amount = r"\d s  392.9 MiB of 515.9 MiB \(76 %, \d+\.\d [MG]iB/s\)\n"
    with Progress(stream=stream, heartbeat=0.2) as progress, progress.step("fetch") as task:
        until(
            lambda: task.reached(412 * 10**6, 541 * 10**6) or re.search(amount, stream.getvalue())
        )
        task.waiting("waiting for host n1")
        task.line("not shown while it waits")
        until(lambda: re.search(r"\d s  waiting for host n1\n", stream.getvalue()))
        task.waiting("")
        until(lambda: task.line("goes on") or re.search(r"\d s  goes on\n", stream.getvalue()))
    assert "not shown" not in stream.getvalue()


def test_a_heartbeat_comes_no_more_often_than_it_should(stream: io.StringIO) -> None:
    begun = time.monotonic()
    with Progress(stream=stream, heartbeat=0.3) as progress, progress.step("slow"):
        until(lambda: len(stream.getvalue().splitlines()) >= 4)
        assert len(stream.getvalue().splitlines()) <= 1 + (time.monotonic() - begun) / 0.3


# As JSON


def test_json_is_one_object_a_line_with_what_happened(stream: io.StringIO) -> None:
    with Progress("json", stream=stream, heartbeat=NEVER) as progress:
        progress.expect(2)
        progress.cached("base", "since Monday")
        with progress.step("python") as task:
            task.line("漢字")
            task.waiting("host n1")
            task.waiting("host n1")
            task.waiting("")
            task.reached(3, 4)
        progress.say("done")
    printed = events(stream)
    moments = [datetime.fromisoformat(str(event.pop("time"))) for event in printed]
    assert {moment.utcoffset() for moment in moments} == {timedelta(0)}
    seconds = [event.pop("seconds") for event in printed if "seconds" in event]
    assert seconds[-1] == pytest.approx(progress.times["python"], abs=0.1)
    steps = {"step": "python", "total": 2}
    assert printed.pop(-2) == {"event": "end", "done": 2, **steps}
    # How far a step is comes a little later than its lines.
    printed.sort(key=lambda event: event["event"] == "reached")
    assert printed == [
        {"event": "cached", "step": "base", "text": "since Monday", "done": 1, "total": 2},
        {"event": "begin", "done": 1, **steps},
        {"event": "line", "step": "python", "text": "漢字"},
        {"event": "waiting", "text": "host n1", "done": 1, **steps},
        {"event": "waiting", "text": "", "done": 1, **steps},
        {"event": "say", "text": "done"},
        {"event": "reached", "step": "python", "done": 3, "total": 4},
    ]


def test_json_reports_how_far_a_step_is_ten_times_a_second(stream: io.StringIO) -> None:
    begun = time.monotonic()
    with Progress("json", stream=stream) as progress, progress.step("fetch") as task:
        for number in range(1, 1001):
            task.reached(number, 1000)
            time.sleep(0.0005)
    elapsed = time.monotonic() - begun
    printed = events(stream, "reached")
    assert 2 <= len(printed) <= 10 * elapsed + 1
    assert printed[-1]["done"] == printed[-1]["total"] == 1000


def test_json_has_failures_and_signs_of_life(stream: io.StringIO) -> None:
    progress = Progress("json", stream=stream, heartbeat=0.2)
    with suppress(KeyError), progress, progress.step("slow"):
        until(lambda: events(stream, "alive"))
        raise KeyError
    alive = events(stream, "alive")[0]
    assert alive["step"] == "slow"
    assert alive["seconds"] >= 0.2
    assert str(alive["text"]).startswith("no output for ")
    assert events(stream)[-1]["event"] == "failed"
