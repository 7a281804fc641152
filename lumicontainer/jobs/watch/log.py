"""Read the end of a log."""

import os
from pathlib import Path

from lumicontainer.system.terminal.output import clean

_LAST = 4096
"""Bytes in which the last line is looked for."""


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty, without control characters.

    Empty if the log cannot be read.
    """
    if not log.is_file():
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST))
            text = file.read(_LAST).decode("utf-8", "replace")
    except OSError:
        return ""
    return next((each for row in reversed(text.split("\n")) if (each := clean(row).strip())), "")
