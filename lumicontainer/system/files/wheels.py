"""Open wheels that a container or an index made, and measure them before they are unpacked."""

import configparser
import csv
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import Problem, StepError

OTHER_VERSION = "choose another version of it"
FAULTS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(csv.Error, configparser.Error),
    *(OSError, ValueError, LookupError, EOFError, RuntimeError),
)
"""The exceptions of Python's readers for damaged, encrypted or unknown content."""
_LARGEST_LIST = 32 << 20
"""The largest list of files of a wheel, in bytes; PyTorch's has 2 MB."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The methods that pip and every installer read; others expand without bound."""
_HEADER = 30
"""Bytes before each member (APPNOTE.TXT, 4.3.7)."""


class Contents(NamedTuple):
    """Hold the count of files in wheels, and their bytes when unpacked."""

    files: int
    size: int


class _Bounded(io.FileIO):
    """Refuse to read a list of files that is too large: ``ZipFile`` reads it as a whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read some bytes; raise ``BadZipFile`` if they are too many."""
        if size is not None and size > _LARGEST_LIST:
            raise zipfile.BadZipFile(f"its list of files has {size} bytes")
        return super().read(size)


@contextmanager
def open_wheel(path: Path, hint: str = OTHER_VERSION) -> Iterator[zipfile.ZipFile]:
    """Yield an open wheel; raise ``StepError`` for what cannot be read of it meanwhile."""
    try:
        with _Bounded(path) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except FAULTS as error:
        what = f"cannot read the wheel {path.name}"
        raise StepError(Problem(what, why=str(error), hint=hint)) from error


def measure_wheel(wheel: Path, hint: str = OTHER_VERSION) -> Contents:
    """Return what a wheel states of its files: no reader unpacks more of them.

    Raises ``StepError`` for one that cannot be unpacked within that size.
    """
    with open_wheel(wheel, hint) as archive:
        members = archive.infolist()
        if fault := next(_faults(wheel, members), ""):
            raise ValueError(fault)
    return Contents(len(members), sum(each.file_size for each in members))


def _faults(wheel: Path, members: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    for each in members:
        if each.compress_type not in _METHODS:
            yield f"{each.filename!a} is compressed by method {each.compress_type}, not by deflate"
    if sum(_HEADER + each.compress_size for each in members) > wheel.stat().st_size:
        yield "its files share bytes"
