"""Write the events of long work: as a log, as JSON, or not at all."""

import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TextIO

from lumicontainer.system import units
from lumicontainer.system.terminal import output

_LOG_WIDTH = 120


class Event(NamedTuple):
    """Hold one event; ``done`` of ``total`` count steps, or bytes in the event ``reached``."""

    event: str
    step: str | None = None
    seconds: float | None = None
    text: str | None = None
    done: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        """Return a line for people; only messages may have several."""
        return "\n".join(event_lines(self, _LOG_WIDTH))


class Form:
    """Write no event. Other forms do; after a failed write they stop, so that the work goes on."""

    def __init__(self, stream: TextIO) -> None:
        self.error: BaseException | None = None
        """The error that ends the work."""
        self._stream = stream
        self._broken = False

    def write(self, event: Event) -> bool:
        """Write an event; return whether anything was written."""
        del event
        return False

    def draw(self, running: Sequence[Event]) -> None:
        """Show the state of the running steps."""

    def close(self) -> None:
        """Remove the redrawn lines."""

    def _put(self, text: str, *, raw: bool = False) -> None:
        """Write text; ``raw`` text has escape sequences of this program."""
        if self._broken:
            return
        try:
            output.write(self._stream, text, raw=raw)
            self._stream.flush()
        except (OSError, ValueError):
            self._broken = True


class Callback(Form):
    """Call a function with each event; if it raises, the next event of the work does too."""

    def __init__(self, call: Callable[[Event], None]) -> None:
        super().__init__(sys.stderr)
        self._call = call

    def write(self, event: Event) -> bool:
        """Call the function."""
        if not self.error:
            try:
                self._call(event)
            except BaseException as error:  # noqa: BLE001 - raised in the work
                self.error = error
        # The others come of a thread that nobody waits for.
        if self.error and event.event not in ("alive", "reached"):
            raise self.error
        return True


class Json(Form):
    """Write each event as one line of JSON."""

    def write(self, event: Event) -> bool:
        """Write an event with its time."""
        fields = {key: value for key, value in event._asdict().items() if value is not None}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._put(output.as_json({"time": moment, **fields}) + "\n")
        return True


class Plain(Form):
    """Write a log whose lines begin with the time of day; ``verbose`` adds the output of steps."""

    def __init__(self, stream: TextIO, *, verbose: bool = False) -> None:
        super().__init__(stream)
        self._verbose = verbose
        self._message = ""

    def write(self, event: Event) -> bool:
        """Write an event except amounts; a message that is also an output line is written once."""
        if event.event == "say":
            self._message = event.text or ""
        if event.event == "line" and self._verbose and event.text != self._message:
            lines = [f"{event.step}: {event.text}"]
        elif event.event in ("line", "reached") or (event.event == "waiting" and not event.text):
            return False
        else:
            lines = event_lines(event, _LOG_WIDTH)
        moment = time.strftime("%H:%M:%S")
        self._put("".join(f"{moment} {each}\n" for each in lines))
        return True


def event_lines(event: Event, width: int) -> list[str]:
    """Return an event as lines; only messages may be longer than ``width`` characters."""
    text, seconds = event.text or "", event.seconds or 0.0
    if event.event == "say":
        return text.removesuffix("\n").split("\n")
    # An output line may be very long: read only what can fit.
    text = "".join(filter(str.isprintable, " ".join(text[: 4 * width].split())))
    message = {
        "begin": "begins",
        "end": f"{seconds:.1f} s",
        "failed": f"not finished after {seconds:.1f} s",
        "cached": f"cached  {text}",
        "alive": f"{seconds:.0f} s  {text}",
        "waiting": text,
        "line": text,
        "reached": f"{units.size(event.done or 0)} of {units.size(event.total or 0)}",
    }[event.event]
    counts = event.event != "reached"
    count = gauge(event.done or 0, event.total or 0) if counts else ""
    start = count if event.event in ("end", "cached") else " " * len(count)
    return [f"{start} {event.step:<18}  {message}".rstrip()[:width]]


def gauge(done: int, total: int) -> str:
    """Return a count of steps in brackets; a total of 0 is not known."""
    of = f"/{total}" if total else ""
    return f"[{done:>{max(len(of) - 1, 0)}}{of}]"
