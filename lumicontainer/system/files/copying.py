"""Copy bytes between open files; blocks are shared if the file system can."""

import errno
import os

_PIECE = 8 << 20
_CANNOT = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def copy_range(source: int, begin: int, target: int, place: int, size: int) -> None:
    """Copy ``size`` bytes from the byte ``begin`` of a file to the byte ``place`` of another.

    Raises ``OSError`` if the source is too short.
    """
    done = 0
    while done < size:
        step = _copy_piece(source, begin + done, target, place + done, min(size - done, _PIECE))
        if not step:
            raise OSError(errno.EIO, f"the file ends {size - done} bytes early")
        done += step


def _copy_piece(source: int, begin: int, target: int, place: int, size: int) -> int:
    try:
        # Some file systems copy nothing and report no error (copy_file_range(2), BUGS).
        if copied := os.copy_file_range(source, target, size, begin, place):
            return copied
    except OSError as error:
        # The file systems differ, or do not support the call.
        if error.errno not in _CANNOT:
            raise
    return os.pwrite(target, os.pread(source, size, begin), place)
