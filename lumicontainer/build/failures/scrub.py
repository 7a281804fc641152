"""Replace secrets in the kept files of a failed step. Runs in a user namespace.

Usage: python -m lumicontainer.build.failures.scrub FOLDER SECONDS <SECRETS

SECRETS is the output of ``masking.dumped``. Only files that changed since SECONDS (from 1970) are
read: no program can set back their ctime.
"""

import os
import stat
import sys
from contextlib import suppress

from lumicontainer.system.terminal import masking


def scrub(folder: str, since: float) -> None:
    """Replace secrets in files, names and link targets below a folder; follow no link."""
    for _, folders, names, at in os.fwalk(folder, topdown=False, follow_symlinks=False):
        for name in (*names, *folders):
            info = os.lstat(name, dir_fd=at)
            if info.st_ctime >= since:
                _scrub(name, at, info)


def _scrub(name: str, at: int, info: os.stat_result) -> None:
    if stat.S_ISLNK(info.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=at))
        if masking.holds(target):
            os.unlink(name, dir_fd=at)
            os.symlink(masking.masked_bytes(target), name, dir_fd=at)
    elif stat.S_ISREG(info.st_mode):
        _scrub_file(name, at)
    called = os.fsencode(name)
    if masking.holds(called):
        target = masking.masked_bytes(called)
        os.rename(called, target + b"-%d" % info.st_ino, src_dir_fd=at, dst_dir_fd=at)


def _scrub_file(name: str, at: int) -> None:
    with os.fdopen(os.open(name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=at), "r+b") as file:
        for attribute in os.listxattr(file.fileno()):
            value = os.getxattr(file.fileno(), attribute)
            if masking.holds(os.fsencode(attribute) + b"\0" + value):
                os.removexattr(file.fileno(), attribute)
        content = file.read()
        if masking.holds(content):
            file.seek(0)
            file.write(masking.masked_bytes(content))
            file.truncate()


if __name__ == "__main__":
    masking.load(sys.stdin.buffer.read())
    with suppress(FileNotFoundError):
        scrub(sys.argv[1], float(sys.argv[2]))
