"""Create a folder that only this user can read, below one where every user may write."""

import os
import stat


def open_private(path: str) -> int:
    """Return a descriptor of the private folder ``path``, which is created if it does not exist.

    Several ranks may call it at once: one creates the folder, and each checks what it opened.
    Raises OSError if it is a link, not a folder, another user's or open to others.
    """
    umask = os.umask(0o077)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    finally:
        os.umask(umask)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if is_private(os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    raise PermissionError(1, "it is another user's, or open to others", path)


def is_private(status: os.stat_result) -> bool:
    """Return whether this is a folder of the user that no one else may read."""
    own = status.st_uid == os.geteuid() and stat.S_ISDIR(status.st_mode)
    return own and not status.st_mode & 0o077
