"""Follow the log of debootstrap, because the engines discard its output."""

import asyncio
import contextlib
import os
import re
import stat
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from lumicontainer.system.process import clean_line

_POLL = 0.3
_FETCHED = re.compile(r"\bURL:\s*(\S+)")
"""A line of wget's --no-verbose (retr.c)."""

Find = Callable[[], Iterable[Path]]


@contextlib.asynccontextmanager
async def followed(find: Find, take: Callable[[str], None]) -> AsyncIterator[None]:
    """Pass each new line of the first file found to ``take`` until the block ends.

    The file may appear later, and disappear while it is read.
    """
    file: int | None = None
    pending = b""

    def read() -> None:
        nonlocal file, pending
        with contextlib.suppress(OSError):
            if file is None:
                file = next(map(_opened, find()), None)
            while file is not None and (chunk := os.read(file, 1 << 16)):
                *lines, pending = (pending + chunk).split(b"\n")
                for text in filter(None, (package_line(clean_line(line)) for line in lines)):
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
            os.close(file)


def _opened(path: Path) -> int:
    """Open a regular file of the new tree; a package could replace it by anything."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(f"{path} is not a regular file")


def package_line(line: str) -> str:
    """Return the message of debootstrap's log about a package; empty for other lines.

    Most lines are warnings of dpkg that every bootstrap prints.
    """
    fetched = _FETCHED.search(line)
    if not fetched:
        return line if line.startswith(("Unpacking ", "Setting up ")) else ""
    folder, _, name = fetched[1].rpartition("/")
    return f"Retrieving {'a list of packages' if '/by-hash/' in folder else name}"
