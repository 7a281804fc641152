"""Follow the log of debootstrap, because the engines discard its output."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from lumicontainer.system.files.regular import open_no_link
from lumicontainer.system.programs.output_log import Lines

_POLL = 0.3
_FETCHED = re.compile(r"\bURL:\s*(\S+)")
"""A line of wget's --no-verbose (retr.c)."""

Find = Callable[[], Iterable[Path]]


@contextlib.asynccontextmanager
async def follow_log(find: Find, take: Callable[[str], None]) -> AsyncIterator[None]:
    """Pass each new line of the first file found to ``take`` until the block ends.

    The file may appear later, and disappear while it is read.
    """
    file: BinaryIO | None = None
    lines = Lines()

    def read() -> None:
        nonlocal file
        with contextlib.suppress(OSError):
            if file is None:
                # A package could replace the file by anything.
                file = next(map(open_no_link, find()), None)
            while file is not None and (chunk := file.read(1 << 16)):
                for text in filter(None, map(package_line, lines.add(chunk))):
                    take(text)

    async def follow() -> None:
        while True:
            read()
            await asyncio.sleep(_POLL)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        read()
        if file is not None:
            file.close()


def package_line(line: str) -> str:
    """Return the message of debootstrap's log about a package; empty for other lines.

    Most lines are warnings of dpkg that every bootstrap prints.
    """
    fetched = _FETCHED.search(line)
    if not fetched:
        return line if line.startswith(("Unpacking ", "Setting up ")) else ""
    folder, _, name = fetched[1].rpartition("/")
    return f"Retrieving {'a list of packages' if '/by-hash/' in folder else name}"
