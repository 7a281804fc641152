"""Look at the text of a script before it is parsed: is it one, and which rules does it ignore."""

import re
from collections.abc import Iterator

from lumicontainer.errors import InputError, Problem

LARGEST = 256 << 10
"""Bytes; sbatch takes 4 MiB, and scripts that people write have a few thousand."""
_IGNORE = re.compile(rb"#\s*lumicontainer:\s*ignore=([\w,.-]+)")


def refuse_other_content(file: str, data: bytes) -> None:
    """Raise ``InputError`` if a file is not text, or is too large for a script."""
    why = ""
    if len(data) > LARGEST:
        why = f"it has more than {LARGEST} bytes, and a batch script has a few thousand"
    elif b"\0" in data:
        why = f"byte {data.index(0) + 1} is NUL: it is not text"
    else:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            why = f"line {line} is not UTF-8"
    if why:
        hint = "name a batch script, such as job.sh"
        raise InputError(Problem("cannot lint the script", file, why, hint))


def read_ignores(data: bytes) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the lines at which a comment switches rules off, with the rules."""
    lines = [b"", *data.split(b"\n")]
    for number, line in enumerate(lines):
        if match := _IGNORE.search(line):
            names = frozenset(match[1].decode().split(","))
            yield number, names
            # Alone on a line it is about the next command, which may have several lines.
            alone = not line[: match.start()].strip()
            for below in range(number + 1, len(lines)) if alone else ():
                yield below, names
                if not lines[below].endswith(b"\\"):
                    break
