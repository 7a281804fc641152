"""Write files so that readers, crashes and power cuts never leave half of one."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems that give a file one name only."""


def write_whole(
    path: Path, content: bytes, *, executable: bool = False, mode: int | None = None
) -> None:
    """Replace a file in one step, so that readers see the old or the new content.

    Who may read an ``executable`` file may also run it. ``mode`` is the file's mode, by default the
    mode of new files.
    """
    with _draft(path, content, executable=executable) as draft:
        if mode is not None:
            draft.chmod(mode)
        replace(draft, path)


def write_new(path: Path, content: bytes, *, executable: bool = False) -> None:
    """Write a file in one step; raise ``FileExistsError`` if something has its name."""
    with _draft(path, content, executable=executable) as draft:
        sync(draft)
        try:
            os.link(draft, path)
        except OSError as error:
            if error.errno not in _NO_LINKS or os.path.lexists(path):
                raise
            draft.replace(path)
        sync(path.parent)


@contextmanager
def _draft(path: Path, content: bytes, *, executable: bool) -> Iterator[Path]:
    # Other threads, and processes of other hosts, may write the same file.
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        draft.write_bytes(content)
        if executable:
            mode = draft.stat().st_mode
            draft.chmod(mode | (mode & 0o444) >> 2)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def replace(draft: Path, path: Path) -> None:
    """Give a complete file or link its name; both it and the name outlast a power cut."""
    if not draft.is_symlink():
        sync(draft)
    draft.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def give_to_owners(files: Iterable[Path]) -> None:
    """Give files that root wrote for a user to the owners of their folders."""
    for each in files:
        folder = each.parent.stat()
        os.chown(each, folder.st_uid, folder.st_gid)
