"""Count the bytes that this process reads, whatever else the machine does."""

import re
from pathlib import Path


def bytes_read() -> int:
    """Return the bytes that this process has read from files and pipes (proc(5))."""
    match = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert match
    return int(match[1])
