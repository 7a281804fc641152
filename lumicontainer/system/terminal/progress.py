"""Report the progress of long work on stderr; steps may run side by side."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TextIO

from lumicontainer.system import units
from lumicontainer.system.terminal import output
from lumicontainer.system.terminal.forms import Event, Form, Json, Plain, gauge

FORMS = ("auto", "plain", "json")
"""``auto`` redraws lines on a terminal; elsewhere it is ``plain``."""

_TICK = 0.1
"""Seconds between two redraws, and between two ``reached`` events of a step."""


class Task:
    """Report the progress of one running step."""

    def __init__(self, progress: "Progress", name: str) -> None:
        self.name = name
        self._progress = progress
        self._begun = self._reported = self._active = time.monotonic()
        self._latest = self._reason = self._origin = ""
        self._amount: tuple[int, int] | None = None

    def line(self, text: str) -> None:
        """Set the newest output line of the step, without escape sequences."""
        self._active = time.monotonic()
        self._latest = text if text.strip() else self._latest
        self._progress._report(Event("line", self.name, text=text), self)

    def reached(self, done: int, total: int) -> None:
        """Set how many bytes of a known total are done."""
        with self._progress._lock:
            self._active = time.monotonic()
            self._amount = (done, total)
            percent = 100 * done // total if total else 100
            rate = units.size(int(done / max(self._active - self._begun, _TICK)))
            self._latest = f"{units.size(done)} of {units.size(total)} ({percent} %, {rate}/s)"

    def waiting(self, reason: str) -> None:
        """Show the reason for waiting instead of output lines, until the reason is empty."""
        if reason != self._reason:
            self._active, self._reason = time.monotonic(), reason
            event = self._progress._event(self, "waiting")
            self._progress._report(event._replace(text=reason), self)

    def note_origin(self, origin: str) -> None:
        """Count the step as cached when it ends; ``origin`` made it meanwhile."""
        self._origin = origin

    def _report_amount(self) -> None:
        if self._amount:
            self._progress._report(Event("reached", self.name, None, None, *self._amount), self)
            self._amount = None

    def _state(self, patience: float) -> str:
        silent = time.monotonic() - self._active
        if self._reason or silent < patience:
            return self._reason or self._latest
        after = f", after: {self._latest}" if self._latest else ""
        return f"no output for {silent:.0f} s{after}"


class Progress:
    """Count steps and report each; any thread may call any method.

    During the ``with`` block a thread redraws the terminal, and logs which steps are silent.
    """

    def __init__(
        self, form: str | Form = "auto", *, stream: TextIO | None = None, heartbeat: float = 30.0
    ) -> None:
        self.times: dict[str, float] = {}
        """Seconds of each successful step."""
        self._form = form if isinstance(form, Form) else _form_of(form, stream or sys.stderr)
        self._heartbeat = heartbeat
        self._running: list[Task] = []
        self._done = self._total = 0
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._cancel: Callable[[], object] = lambda: None
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._ticker.join()
        with self._lock:
            self._form.close()

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Call ``cancel`` if the receiver of a silent work's events raises; then raise the same."""
        with self._lock:
            self._cancel = cancel
            if self._form.error:
                cancel()
        try:
            yield
        finally:
            self._cancel = lambda: None
            if self._form.error:
                raise self._form.error

    def expect(self, total: int) -> None:
        """Set the total number of steps."""
        self._total = total

    @contextmanager
    def step(self, name: str) -> Iterator[Task]:
        """Report that a step begins, and how it ends."""
        task = Task(self, name)
        self._report(self._event(task, "begin"), task)
        self._running.append(task)
        try:
            yield task
        except BaseException:
            self._end(task, "failed")
            raise
        self._end(task, "cached" if task._origin else "end")

    def cached(self, name: str, detail: str = "") -> None:
        """Count a step that needed no work."""
        with self._lock:
            self._done += 1
            self._report(Event("cached", name, None, detail, self._done, self._total))

    @contextmanager
    def work(self, name: str) -> Iterator[Task]:
        """Show running work, whose parts ``counted`` counts."""
        task = Task(self, name)
        self._running.append(task)
        try:
            yield task
        finally:
            with self._lock:
                self._running.remove(task)

    def counted(self, text: str) -> None:
        """Count a finished part of a work, and print a message about it."""
        with self._lock:
            self._done += 1
            self._total = max(self._done, self._total)
            self.say(f"{gauge(self._done, self._total)} {text}")

    def say(self, text: str) -> None:
        """Print a message above the redrawn lines."""
        self._report(Event("say", text=text))

    def _end(self, task: Task, event: str) -> None:
        with self._lock:
            self._running.remove(task)
            task._report_amount()
            if event == "end":
                self.times[task.name] = time.monotonic() - task._begun
            self._done += event != "failed"
            ended = self._event(task, event)
            self._report(ended._replace(text=task._origin) if event == "cached" else ended)

    def _tick(self) -> None:
        while not self._closed.wait(_TICK):
            with self._lock:
                if self._form.error:
                    return  # The work raises it.
                for task in self._running:
                    task._report_amount()
                    if time.monotonic() - task._reported >= self._heartbeat:
                        self._report(self._event(task, "alive"), task)
                self._form.draw([self._event(task, "alive") for task in self._running])
                if self._form.error:
                    self._cancel()

    def _report(self, event: Event, task: Task | None = None) -> None:
        with self._lock:
            if self._form.write(event) and task:
                task._reported = time.monotonic()
            if not self._ticker.is_alive():
                self._form.draw(())

    def _event(self, task: Task, event: str) -> Event:
        seconds = round(time.monotonic() - task._begun, 3)
        text = task._state(self._heartbeat) if event == "alive" else None
        return Event(event, task.name, seconds, text, self._done, self._total)


def _form_of(name: str, stream: TextIO) -> Form:
    if output.is_quiet():
        return Form(stream)
    if name == "json":
        return Json(stream)
    dumb = not stream.isatty() or os.environ.get("TERM") == "dumb"
    if name == "plain" or dumb or output.is_verbose():
        return Plain(stream, verbose=output.is_verbose())
    from lumicontainer.system.terminal.live import Terminal  # noqa: PLC0415 - rich: 50 ms

    return Terminal(stream)
