"""Compare the size of wheels when unpacked with limits and free space, before they are unpacked.

Uv stops at a file whose size differs from the one that its wheel states (uv 0.13).
"""

import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import Problem, SpaceError, StepError
from lumicontainer.extending.install import proof
from lumicontainer.system import budget, units
from lumicontainer.system.files import foreign

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The methods that pip and every installer read; others expand without bound."""
_HEADER = 30
"""Bytes before each member (APPNOTE.TXT, 4.3.7)."""


class Contents(NamedTuple):
    """Hold the count of files in wheels, and their bytes when unpacked."""

    files: int
    size: int


def require_room(wheels: Sequence[Path], folder: Path) -> None:
    """Raise ``StepError`` for wheels made to fill a disk, and ``SpaceError`` for a full one.

    ``folder`` is where they are unpacked.
    """
    found = [_measure(each) for each in wheels]
    total = Contents(sum(each.files for each in found), sum(each.size for each in found))
    if total.size > budget.UNPACKED or total.files > foreign.MOST_FILES:
        largest, most = max(zip(wheels, found, strict=True), key=lambda pair: pair[1].size)
        of = f"{units.count(most.files, 'file')} of {units.size(most.size)}"
        raise _refuse("the packages are too large", f"{largest.name} unpacks to {of}")
    free = shutil.disk_usage(folder).free
    if free < total.size:
        what, why = "not enough space for the packages", f"they unpack to {units.size(total.size)}"
        hint = "free some space, or name another place with LUMICONTAINER_TMPDIR"
        why = f"{why}, and {units.size(free)} are free"
        raise SpaceError(Problem(what, str(folder), why, hint))


def _measure(wheel: Path) -> Contents:
    """Return what a wheel states of its files."""
    with proof.open_wheel(wheel) as archive:
        members = archive.infolist()
    for fault in _faults(wheel, members):
        raise _refuse(f"cannot read the wheel {wheel.name}", fault)
    return Contents(len(members), sum(each.file_size for each in members))


def _faults(wheel: Path, members: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    for each in members:
        if each.compress_type not in _METHODS:
            yield f"{each.filename!a} is compressed by method {each.compress_type}, not by deflate"
    if sum(_HEADER + each.compress_size for each in members) > wheel.stat().st_size:
        yield "its files share bytes"


def _refuse(what: str, why: str) -> StepError:
    return StepError(Problem(what, why=why, hint="choose another version of it"))
