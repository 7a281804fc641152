"""Turn errors of the operating system into messages with hints."""

import errno
import os
import resource
import sys
from collections.abc import Callable

from lumicontainer.errors import INTERNAL, OK, HostError, LumicontainerError, Problem, SpaceError

FULL = ("No space left on device", "Disk quota exceeded")
TOO_LARGE = ("File too large", "File size limit exceeded", "SIGXFSZ")
"""The words of the C library, of bash and of this program for the limit ``ulimit -f``."""
_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_GENERAL = {
    errno.EACCES: "let your account read and write there, or name another path",
    errno.EISDIR: "name a file, or a new name in the folder",
    errno.ENOENT: "create what is missing, or name another path",
    errno.ENOTDIR: "a part of the path is a file: name another path",
    errno.EPERM: "use an account that may do it, or name another path",
    errno.EROFS: "name a path on a file system that can be written",
}


def refused(error: OSError, what: str, where: str = "", hint: str = "") -> HostError | SpaceError:
    """Return an error with the message ``what``, its reason, and the hints for it and ``hint``."""
    why = error.strerror or str(error)
    hint = "\n".join(filter(None, (hint_for(error.errno), hint))) or general_hint(error.errno)
    kind = SpaceError if error.errno in _SPACE else HostError
    return kind(Problem(what, where or os.fsdecode(error.filename or ""), why, hint))


def hint_for(number: int | None) -> str:
    """Return the hint for an error number of the system; empty without one."""
    if number == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"raise the limit of open files, which is {limit}: ulimit -n 4096"
    if number == errno.EFBIG:
        return file_size_hint()
    return "free some space" if number in _SPACE else ""


def general_hint(number: int | None) -> str:
    """Return the hint for an error number of a path if the caller has none; empty if unknown."""
    return _GENERAL.get(number or 0, "")


def file_size_hint() -> str:
    """Return the hint for a limit of file sizes that is too low."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return f"raise the limit of a file's size, which is {limit >> 10} KiB: ulimit -f unlimited"


def run_guarded(work: Callable[[], None]) -> int:
    """Run a helper program; print errors as messages and return the exit code."""
    try:
        work()
    except LumicontainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.code
    except OSError as error:
        problem = refused(error, "cannot process the files of the build")
        sys.stderr.write(f"{problem}\n")
        return problem.code
    except Exception as error:
        if os.environ.get("LUMICONTAINER_DEBUG"):
            raise
        sys.stderr.write(f"error: a bug in lumicontainer: {type(error).__name__}: {error}\n")
        return INTERNAL
    return OK
