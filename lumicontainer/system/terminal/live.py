"""Redraw one line for each running step on a terminal, below the lines that stay."""

import io
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from lumicontainer.system.terminal import output
from lumicontainer.system.terminal.forms import Event, Form, event_lines


class Terminal(Form):
    """Print lines that scroll up, and redraw a line for each running step below them.

    Text passes ``output.printable`` and is a ``Text``: its escape sequences and markup stay text.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lasting: list[Event] = []
        self._rows: list[str] = []
        self._console = _Console(file=_File(self), force_terminal=True, legacy_windows=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
        )

    def write(self, event: Event) -> bool:
        """Keep an event for the next redraw."""
        if event.event in ("end", "failed", "cached", "say"):
            self._lasting.append(event)
        return False

    def draw(self, running: Sequence[Event]) -> None:
        """Print the events since the last redraw, and the state of the running steps."""
        # Rich measures only the standard streams, and only once.
        with suppress(OSError, ValueError):
            columns, height = os.get_terminal_size(self._stream.fileno())
            self._console.size = ConsoleDimensions(columns or 80, height or 24)
        width = self._console.width
        rows = [row for event in running for row in event_lines(event, width)]
        if rows and not self._live.is_started:
            self._live.start()
        if rows != self._rows or self._lasting:
            self._rows = rows
            self._live.update(Group(*map(_row, rows)), refresh=not self._lasting)
        if self._lasting:
            lasting, self._lasting = self._lasting, []
            lines = [_lasting_line(self._stream, each, width) for each in lasting]
            self._console.print(Group(*lines), crop=False)

    def close(self) -> None:
        """Remove the lines of running steps."""
        self.draw(())
        self._live.stop()

    def put(self, text: str) -> None:
        """Write text that rich has drawn."""
        self._put(text, raw=True)


class _Console(Console):
    """Never hide the cursor: a killed program would leave it hidden."""

    def show_cursor(self, show: bool = True) -> bool:
        del show
        return False


class _File(io.StringIO):
    """Be the stream of rich. It never raises: rich would end the program."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        self._terminal.put(text)
        return len(text)


def _row(text: str) -> Text:
    return Text(output.printable(text), no_wrap=True, overflow="crop")


def _lasting_line(stream: TextIO, event: Event, width: int) -> Text:
    text = "\n".join(event_lines(event, width))
    if event.event != "say":
        return _row(text)
    return Text.from_ansi(output.shown(stream, text), no_wrap=True, overflow="ignore")
