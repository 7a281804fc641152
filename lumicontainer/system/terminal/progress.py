"""Tell on stderr how far a long work is, some of it side by side; stdout is kept for results."""

from __future__ import annotations

import os
import sys
import threading
import time
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import NamedTuple, Self, TextIO

from lumicontainer.system.terminal import output

FORMS = ("auto", "plain", "json")
"""How progress is told; ``auto`` is lines that are redrawn on a terminal, else ``plain``."""

_TICK = 0.1
"""Seconds between two redraws, and between two events that say how far a step is."""

_UNITS = ((1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB"))


class Progress:
    """Count the steps of a work and tell of each; every method may be called by any thread.

    While the ``with`` block lasts, a thread redraws the terminal or says that silent steps live.
    """

    def __init__(
        self, form: str = "auto", *, stream: TextIO | None = None, heartbeat: float = 30.0
    ) -> None:
        self.times: dict[str, float] = {}
        """Seconds of each step that ended well."""
        stream = stream or sys.stderr
        self._form: _Form = _form_of(form, stream)(stream)
        self._heartbeat = heartbeat
        self._running: list[Task] = []
        self._done = self._total = 0
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._ticker.join()
        with self._lock:
            self._form.draw([])

    def expect(self, total: int) -> None:
        """Take how many steps there will be."""
        self._total = total

    @contextmanager
    def step(self, name: str) -> Iterator[Task]:
        """Tell that a step begins, and how it ended; several may be open at the same time."""
        task = Task(self, name)
        self._tell(self._about(task, "begin"), task)
        self._running.append(task)
        try:
            yield task
        except BaseException:
            self._end(task, "failed")
            raise
        self._end(task, "cached" if task._found else "end")

    def cached(self, name: str, detail: str = "") -> None:
        """Count a step that needed no work."""
        with self._lock:
            self._done += 1
            self._tell(_Event("cached", name, None, detail, self._done, self._total))

    @contextmanager
    def work(self, name: str) -> Iterator[Task]:
        """Show that work goes on whose parts are counted one by one, by ``counted``."""
        task = Task(self, name)
        self._running.append(task)
        try:
            yield task
        finally:
            with self._lock:
                self._running.remove(task)

    def counted(self, text: str) -> None:
        """Count a part of a work that is done, and print talk of it."""
        with self._lock:
            self._done += 1
            self._total = max(self._done, self._total)
            self.say(f"{_gauge(self._done, self._total)} {text}")

    def say(self, text: str) -> None:
        """Print talk without tearing what is redrawn."""
        self._tell(_Event("say", text=text))

    def _end(self, task: Task, event: str) -> None:
        with self._lock:
            self._running.remove(task)
            task._tell_amount()
            if event == "end":
                self.times[task.name] = time.monotonic() - task._begun
            self._done += event != "failed"
            about = self._about(task, event)
            self._tell(about._replace(text=task._found) if event == "cached" else about)

    def _tick(self) -> None:
        while not self._closed.wait(_TICK):
            with self._lock:
                for task in self._running:
                    task._tell_amount()
                    if time.monotonic() - task._told >= self._heartbeat:
                        self._tell(self._about(task, "alive"), task)
                self._form.draw([self._about(task, "alive") for task in self._running])

    def _tell(self, event: _Event, task: Task | None = None) -> None:
        with self._lock:
            if self._form.tell(event) and task:
                task._told = time.monotonic()
            if not self._ticker.is_alive():
                self._form.draw([])

    def _about(self, task: Task, event: str) -> _Event:
        seconds = round(time.monotonic() - task._begun, 3)
        text = task._state(self._heartbeat) if event == "alive" else None
        return _Event(event, task.name, seconds, text, self._done, self._total)


class Task:
    """A running step, which says of itself how far it is."""

    def __init__(self, progress: Progress, name: str) -> None:
        self.name = name
        self._progress = progress
        self._begun = self._told = self._heard = time.monotonic()
        self._latest = self._reason = self._found = ""
        self._amount: tuple[int, int] | None = None

    def line(self, text: str) -> None:
        """Take the newest output line of the step, without escape sequences."""
        self._heard = time.monotonic()
        self._latest = text if text.strip() else self._latest
        self._progress._tell(_Event("line", self.name, text=text), self)

    def reached(self, done: int, total: int) -> None:
        """Take how far the step is, in bytes or items; a total of 0 is not known yet."""
        with self._progress._lock:
            self._heard = time.monotonic()
            self._latest, self._amount = amount(done, total), (done, total)

    def waiting(self, reason: str) -> None:
        """Show what the step waits for instead of its lines, until the reason is empty."""
        if reason != self._reason:
            self._heard, self._reason = time.monotonic(), reason
            about = self._progress._about(self, "waiting")
            self._progress._tell(about._replace(text=reason), self)

    def found(self, origin: str) -> None:
        """Count the step as cached when it ends: ``origin`` says who made it meanwhile."""
        self._found = origin

    def _tell_amount(self) -> None:
        """Tell how far the step is, where that is new; the caller holds the lock."""
        if self._amount:
            self._progress._tell(_Event("reached", self.name, None, None, *self._amount), self)
            self._amount = None

    def _state(self, patience: float) -> str:
        """Return in words what the step does."""
        silent = time.monotonic() - self._heard
        if self._reason or silent < patience:
            return self._reason or self._latest
        after = f", after: {self._latest}" if self._latest else ""
        return f"no output for {silent:.0f} s{after}"


def _form_of(name: str, stream: TextIO) -> type[_Form]:
    """Return the way to tell that an option and what was asked of all talk mean."""
    if output.is_quiet():
        return _Silent
    if name == "json":
        return _Json
    if output.is_verbose():
        return _Verbose
    redraws = stream.isatty() and os.environ.get("TERM") != "dumb"
    return _Terminal if name == "auto" and redraws else _Plain


class _Event(NamedTuple):
    """Something to tell; ``done`` of ``total`` are steps, but in ``reached`` bytes or items."""

    event: str
    step: str | None = None
    seconds: float | None = None
    text: str | None = None
    done: int | None = None
    total: int | None = None


class _Form(ABC):
    """A way to tell of events; after the first failed write it is silent, to spare the build."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._broken = False

    @abstractmethod
    def tell(self, event: _Event) -> bool:
        """Tell of an event; return whether something was written."""

    def draw(self, running: Sequence[_Event]) -> None:  # noqa: B027 - a log redraws nothing
        """Show the state of the running steps."""

    def _write(self, text: str, *, steering: str = "") -> None:
        if self._broken:
            return
        try:
            output.redraw(self._stream, steering, text)
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._broken = True
            if isinstance(error, BrokenPipeError):
                # What is left in the stream's buffer would fail again at exit, and set its code.
                with suppress(OSError), open(os.devnull, "w") as nowhere:  # noqa: PTH123 - short
                    os.dup2(nowhere.fileno(), self._stream.fileno())


class _Json(_Form):
    """One JSON object a line for each event."""

    def tell(self, event: _Event) -> bool:
        from datetime import UTC, datetime  # noqa: PLC0415 - 2 ms, for this form alone

        fields = {key: value for key, value in event._asdict().items() if value is not None}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(output.as_json({"time": moment, **fields}) + "\n")
        return True


class _Plain(_Form):
    """Lines of a log, which begin with the time of day."""

    def tell(self, event: _Event) -> bool:
        if event.event in ("line", "reached") or (event.event == "waiting" and not event.text):
            return False
        moment = time.strftime("%H:%M:%S")
        self._write("".join(f"{moment} {line}\n" for line in _lines(event, width=120)))
        return True


class _Silent(_Form):
    """Nothing: what goes wrong is told where the work ends."""

    def tell(self, event: _Event) -> bool:
        del event
        return False


class _Verbose(_Plain):
    """Lines of a log, each line that a step puts out among them."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._said = ""

    def tell(self, event: _Event) -> bool:
        if event.event == "say":
            self._said = event.text or ""
        # What a step says of itself is not told a second time as its newest line.
        if event.event != "line" or event.text == self._said:
            return super().tell(event)
        self._write(f"{time.strftime('%H:%M:%S')} {event.step}: {event.text}\n")
        return True


class _Terminal(_Form):
    """Lasting lines that scroll up, and below them one redrawn line for each running step."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lasting: list[_Event] = []
        self._shown: list[str] = []

    def tell(self, event: _Event) -> bool:
        if event.event in ("end", "failed", "cached", "say"):
            self._lasting.append(event)
        return False

    def draw(self, running: Sequence[_Event]) -> None:
        columns, height = self._size()
        # The cursor rests on the line after them: there it is right however the program ends.
        width, room = max(columns - 1, 1), max(height - 1, 1)
        lines = [line for event in running for line in _lines(event, width)]
        if len(lines) > room:
            lines[room - 1 :] = [_cut(f"and {len(lines) - room + 1} more", width)]
        if lines == self._shown and not self._lasting:
            return
        # A terminal that became narrower has wrapped the lines that it shows.
        up = sum(-(-_cells(line) // columns) for line in self._shown)
        lasting = [line for event in self._lasting for line in _lines(event, width)]
        erase = (f"\x1b[{up}A" if up else "") + "\r\x1b[J"
        self._write("".join(f"{line}\n" for line in lasting + lines), steering=erase)
        self._lasting, self._shown = [], lines

    def _size(self) -> tuple[int, int]:
        with suppress(OSError, ValueError):
            columns, height = os.get_terminal_size(self._stream.fileno())
            return columns or 80, height or 24
        return 80, 24


def _lines(event: _Event, width: int) -> list[str]:
    """Return the lines that tell people of an event; only talk may be longer than ``width``."""
    text, seconds = event.text or "", event.seconds or 0.0
    if event.event == "say":
        return text.removesuffix("\n").split("\n")
    # No more of a text than can fit is looked at: a line of output may be very long.
    text = "".join(filter(str.isprintable, " ".join(text[: 4 * width].split())))
    told = {
        "begin": "begins",
        "end": f"{seconds:.1f} s",
        "failed": f"not finished after {seconds:.1f} s",
        "cached": f"cached  {text}",
        "alive": f"{seconds:.0f} s  {text}",
        "waiting": text,
    }[event.event]
    gauge = _gauge(event.done or 0, event.total or 0)
    start = gauge if event.event in ("end", "cached") else " " * len(gauge)
    return [_cut(f"{start} {event.step:<18}  {told}".rstrip(), width)]


def _gauge(done: int, total: int) -> str:
    of = f"/{total}" if total else ""
    return f"[{done:>{max(len(of) - 1, 0)}}{of}]"


def _cells(text: str) -> int:
    """Return how many cells of a terminal's line a text takes."""
    marks = sum(unicodedata.category(char) in ("Mn", "Me") for char in text)
    return len(text) - marks + sum(unicodedata.east_asian_width(char) in "WF" for char in text)


def _cut(text: str, width: int) -> str:
    """Return the beginning of a text that fits into a line."""
    ends = accumulate(_cells(char) for char in text)
    return "".join(char for char, end in zip(text, ends, strict=True) if end <= width)


def amount(done: int, total: int) -> str:
    """Return how far something is in words, above ten thousand as bytes in a decimal unit."""
    largest = max(done, total)
    unit, name = next((pair for pair in _UNITS if 1e4 < largest >= pair[0]), (1, ""))
    digits = max(0, 3 - len(f"{largest / unit:.0f}")) if name else 0
    shown, whole = (f"{number / unit:.{digits}f}" for number in (done, total))
    return f"{shown} of {whole}{name} ({100 * done // total} %)" if total > 0 else shown + name
