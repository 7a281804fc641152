"""Replace secrets in the kept files of a failed step. Runs in a user namespace.

Usage: python -m lumicontainer.sandbox.failures.scrub FOLDER SECONDS <SECRETS

SECRETS is the output of ``masking.dumped``. Only files that changed since SECONDS (from 1970) are
read: no program can set back their ctime. An ordinary user gets the rights of an owner meanwhile.
"""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import BinaryIO, TypeAlias

from lumicontainer.system.files.regular import open_no_link
from lumicontainer.system.os_errors import run_guarded
from lumicontainer.system.terminal import masking

IMAGE = "image.sif"
"""A copy of an image in the folder. It is not read: its layers were searched when they were made,
and other lengths would break it."""
_PIECE = 1 << 22
_ALL = os.R_OK | os.W_OK | os.X_OK
Span: TypeAlias = tuple[int, int]
"""Where a secret begins and ends in a file."""


def scrub(folder: str, since: float) -> None:
    """Replace secrets in files, names and link targets below a folder; follow no link."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _scrub_all(_names(at) - {IMAGE}, at, since)
    finally:
        os.close(at)


def _names(at: int) -> set[str]:
    with os.scandir(at) as entries:
        return {each.name for each in entries}


def _scrub_all(names: set[str], at: int, since: float) -> None:
    for name in names:
        # Another step that still runs may remove it.
        with suppress(FileNotFoundError):
            info = os.lstat(name, dir_fd=at)
            if stat.S_ISDIR(info.st_mode):
                with _open_folder(name, at, info) as inner:
                    _scrub_all(_names(inner), inner, since)
                    for attribute in list(_attributes(inner)):
                        os.removexattr(inner, attribute)
            if info.st_ctime >= since:
                _scrub(name, at, info)


@contextmanager
def _open_folder(name: str, at: int, info: os.stat_result) -> Iterator[int]:
    """Open a folder, also one that is closed to its owner; restore its mode."""
    mode = stat.S_IMODE(info.st_mode)
    if not os.access(name, _ALL, dir_fd=at):
        os.chmod(name, mode | stat.S_IRWXU, dir_fd=at)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        yield inner
    finally:
        _restore(inner, mode)
        os.close(inner)


def _restore(file: int, mode: int) -> None:
    if stat.S_IMODE(os.fstat(file).st_mode) != mode:
        os.fchmod(file, mode)


def _scrub(name: str, at: int, info: os.stat_result) -> None:
    if stat.S_ISLNK(info.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=at))
        if masking.holds(target):
            os.unlink(name, dir_fd=at)
            os.symlink(masking.masked_bytes(target), name, dir_fd=at)
    elif stat.S_ISREG(info.st_mode):
        _scrub_file(name, at, stat.S_IMODE(info.st_mode))
    called = os.fsencode(name)
    if masking.holds(called):
        target = masking.masked_bytes(called)
        os.rename(called, target + b"-%d" % info.st_ino, src_dir_fd=at, dst_dir_fd=at)


def _scrub_file(name: str, at: int, mode: int) -> None:
    if not os.access(name, os.R_OK, dir_fd=at):
        os.chmod(name, mode | stat.S_IRUSR, dir_fd=at)
    with open_no_link(name, at) as file:
        try:
            attributes, spans = list(_attributes(file.fileno())), _spans(file)
            if attributes or spans:
                os.fchmod(file.fileno(), mode | stat.S_IRUSR | stat.S_IWUSR)
            for attribute in attributes:
                os.removexattr(file.fileno(), attribute)
            if spans:
                _overwrite(name, at, spans)
        finally:
            _restore(file.fileno(), mode)


def _attributes(file: int) -> Iterator[str]:
    """Yield the extended attributes of an open file or folder that hold a secret."""
    for attribute in os.listxattr(file):
        if masking.holds(os.fsencode(attribute) + b"\0" + os.getxattr(file, attribute)):
            yield attribute


def _spans(file: BinaryIO) -> list[Span]:
    """Return where a file has secrets, in order; adjacent ones are one span."""
    spans: list[Span] = []
    for start, piece in masking.pieces(file):
        spans = _joined([*spans, *((start + a, start + b) for a, b in masking.spans(piece))])
    return spans


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _overwrite(name: str, at: int, spans: Sequence[Span]) -> None:
    """Put the mask in place of each span; it is shorter, so that nothing unread is overwritten."""
    with os.fdopen(os.open(name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=at), "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(spans[0][0])
        for (_, begin), (until, _) in pairwise([*spans, (size, size)]):
            file.write(masking.MASK)
            source = begin
            while piece := os.pread(file.fileno(), min(_PIECE, until - source), source):
                file.write(piece)
                source += len(piece)
        file.truncate()


def main() -> None:
    """Read the command line."""
    masking.load(sys.stdin.buffer.read())
    scrub(sys.argv[1], float(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(run_guarded(main))
