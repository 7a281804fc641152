"""Write files so that readers and crashes never see half of one."""

import os
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, content: bytes, *, executable: bool = False) -> None:
    """Replace a file in one step, so that readers see the old or the new content.

    Who may read an ``executable`` file may also run it.
    """
    # Other threads, and processes of other hosts, may write the same file.
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        draft.write_bytes(content)
        if executable:
            mode = draft.stat().st_mode
            draft.chmod(mode | (mode & 0o444) >> 2)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


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
