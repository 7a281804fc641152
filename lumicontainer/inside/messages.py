"""Write to stdout and stderr, either of which may be closed or full."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TextIO


def write(stream: TextIO | None, content: str | bytes) -> None:
    """Write everything to a standard stream, which is None if it is closed; raise OSError."""
    if stream is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    left = content
    if isinstance(left, str):
        # Characters that the terminal's encoding does not have are escaped.
        left = left.encode(stream.encoding, "backslashreplace")
    # What stays in the stream's own buffer would let Python exit with 120.
    while left:
        left = left[os.write(stream.fileno(), left) :]


def write_message(text: str) -> None:
    """Write a message to stderr if that is possible: a lost message must stop nothing."""
    with contextlib.suppress(OSError):
        write(sys.stderr, text)
