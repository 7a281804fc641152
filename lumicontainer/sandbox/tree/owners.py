"""Run a program without root, and record which files it gives to other users and groups.

Usage: python -m lumicontainer.sandbox.tree.owners TREE STATE RECORD COMMAND...

PRoot makes a chown succeed and forgets it. The kernel asks this program first, about every call of
the command and of its children (seccomp_unotify(2)). RECORD gets the owner of each file by its
inode, STATE has the owners that the tree had before.

A device node is refused, as in a user namespace: PRoot would report one that is not there.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import select
import socket
import stat
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError, Problem
from lumicontainer.sandbox.tree.index import Row
from lumicontainer.sandbox.tree.snapshot import Owners, read_state
from lumicontainer.system.os_errors import run_guarded


class Call(NamedTuple):
    """Hold where a system call has its arguments; None if it has no such argument."""

    folder: int | None
    path: int | None
    value: int
    """The argument of the user."""
    flags: int | None = None
    follows: bool = True
    makes: bool = False
    """It makes a node, and ``value`` is its kind."""


_CHOWN, _LCHOWN = Call(None, 0, 1), Call(None, 0, 1, follows=False)
_FCHOWN, _FCHOWNAT = Call(0, None, 1), Call(0, 1, 2, 4)
_MKNOD, _MKNODAT = Call(None, 0, 1, makes=True), Call(0, 1, 2, makes=True)
# The numbers are from asm/unistd_64.h.
_CALLS = {92: _CHOWN, 93: _FCHOWN, 94: _LCHOWN, 260: _FCHOWNAT, 133: _MKNOD, 259: _MKNODAT}
_SECCOMP = 317
_NO_NEW_PRIVILEGES, _FILTER, _LISTENER = 38, 1, 8
_ASK, _ALLOW, _CONTINUE = 0x7FC00000, 0x7FFF0000, 1
_UNKNOWN_CALL = 0x00050000 | errno.ENOSYS
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTICE, _ANSWER = struct.Struct("QIIiIQ6Q"), struct.Struct("QqiI")
_UNCHANGED = 0xFFFFFFFF
_NO_FOLLOW = 0x100
_OWN = (os.getuid(), os.getgid())
"""The ids that PRoot passes to the kernel instead of root's."""
_REFUSED = (
    *(332, 316, 437, 439, 452),  # statx, renameat2, openat2, faccessat2, fchmodat2
    *(322, 428, 303, 304),  # execveat, open_tree, name_to_handle_at, open_by_handle_at
    *(425, 426, 427),  # io_uring, which opens files without a call that PRoot sees
    *(438, 310, 311),  # pidfd_getfd, process_vm_readv and _writev: files and memory of others
    *range(463, 467),  # setxattrat and its kind
)
"""PRoot 5.1 passes the paths of these calls unchanged, so they reach the files of the host.

Programs use older calls if the kernel does not have these.
"""
_X86_64, _X32 = 0xC000003E, 0x40000000
"""The convention of calls whose numbers these are, and the mark of another one."""


def read_owners(path: Path) -> Owners:
    """Return the owners in a record; none if it is missing."""
    with contextlib.suppress(FileNotFoundError):
        rows = (map(int, line.split()) for line in path.read_text().splitlines())
        return {inode: (user, group) for inode, user, group in rows}
    return {}


class Recorder:
    """Answer the kernel's questions about one tree."""

    def __init__(self, tree: Path, rows: dict[str, Row], known: Owners) -> None:
        self.device = tree.stat().st_dev
        self.owners = dict(known)
        self.held: dict[int, int] = {}
        """Descriptors: the number of an inode that is open does not become another file's."""
        for path, row in rows.items():
            if row.uid or row.gid:
                with contextlib.suppress(OSError):
                    opened = os.open(tree / path, os.O_PATH | os.O_NOFOLLOW)
                    self._record(opened, os.fstat(opened), (row.uid, row.gid))

    def answer(self, pid: int, number: int, arguments: Sequence[int]) -> tuple[int, int]:
        """Return the error of a system call, or 0, and the flags of the answer."""
        call = _CALLS[number]
        if call.makes:
            device = stat.S_ISCHR(arguments[call.value]) or stat.S_ISBLK(arguments[call.value])
            # PRoot turns EPERM into success.
            return (-errno.EOPNOTSUPP, 0) if device else (0, _CONTINUE)
        try:
            opened = _opened(pid, call, arguments)
        except OSError as error:
            return -(error.errno or errno.EIO), 0
        info = os.fstat(opened)
        before = self.owners.get(info.st_ino, (0, 0))
        owner = tuple(
            old if new & _UNCHANGED == _UNCHANGED else 0 if new == own else new
            for old, new, own in zip(before, arguments[call.value :], _OWN, strict=False)
        )
        if stat.S_ISREG(info.st_mode) and info.st_mode & 0o6000:
            # As the kernel does if root changes the owner (chown(2)).
            Path(f"/proc/self/fd/{opened}").chmod(info.st_mode & 0o1777)
        self._record(opened, info, (owner[0], owner[1]))
        return 0, 0

    def left(self) -> Owners:
        """Return the owners of files that were not removed."""
        removed = {inode for inode, opened in self.held.items() if not os.fstat(opened).st_nlink}
        return {inode: owner for inode, owner in self.owners.items() if inode not in removed}

    def _record(self, opened: int, info: os.stat_result, owner: tuple[int, int]) -> None:
        # Root without record is the default; holding all that packages give to root takes too many.
        unusual = any(owner) or info.st_ino in self.owners or _inherits(opened)
        if info.st_dev == self.device and unusual:
            self.owners[info.st_ino] = owner
        if unusual and info.st_ino not in self.held:
            self.held[info.st_ino] = opened
        else:
            os.close(opened)


def _inherits(opened: int) -> bool:
    """Return whether a new file in the folder of an open one gets the folder's group."""
    folder = Path(f"/proc/self/fd/{opened}").readlink().parent
    with contextlib.suppress(OSError):
        return bool(folder.stat().st_mode & stat.S_ISGID)
    return False


def _opened(pid: int, call: Call, arguments: Sequence[int]) -> int:
    """Return a descriptor of the file of a call; PRoot has made its path one of the host."""
    folder = f"/proc/{pid}/cwd"
    if call.folder is not None and (number := ctypes.c_int(arguments[call.folder]).value) >= 0:
        folder = f"/proc/{pid}/fd/{number}"
    path = _text(pid, arguments[call.path]) if call.path is not None else ""
    if not path:
        return os.open(folder, os.O_PATH)
    named = call.flags is not None and arguments[call.flags] & _NO_FOLLOW
    follows = call.follows and not named
    return os.open(Path(folder, path), os.O_PATH | (0 if follows else os.O_NOFOLLOW))


def _text(pid: int, address: int) -> str:
    text = b""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        while b"\0" not in text:
            at = address + len(text)
            memory.seek(at)
            # Not over the end of a page, behind which there may be nothing.
            text += memory.read(4096 - at % 4096)
    return os.fsdecode(text.partition(b"\0")[0])


def listen() -> int:
    """Let the kernel ask about the calls of this process; return the descriptor of its questions.

    Raises ``HostError`` if the kernel does not do that.
    """
    answers = dict.fromkeys(_CALLS, _ASK) | dict.fromkeys(_REFUSED, _UNKNOWN_CALL)
    unknown = (0x06, 0, 0, _UNKNOWN_CALL)
    # Load the convention of the call, then its number.
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, _X86_64), unknown]
    program += [(0x20, 0, 0, 0), (0x35, 0, 1, _X32), unknown]
    for number, result in answers.items():
        program += [(0x15, 0, 1, number), (0x06, 0, 0, result)]
    program += [(0x06, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    head = struct.pack("H6xQ", len(program), ctypes.addressof(code))
    described = ctypes.create_string_buffer(head)
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    words = (ctypes.c_long(each) for each in (_SECCOMP, _FILTER, _LISTENER))
    descriptor = int(library.syscall(*words, ctypes.c_void_p(ctypes.addressof(described))))
    if descriptor < 0:
        why = os.strerror(ctypes.get_errno())
        what, hint = "the kernel does not report changes of owners", "Linux 5.5 or newer does"
        raise HostError(Problem(what, why=f"seccomp: {why}", hint=hint))
    return descriptor


def _start(command: Sequence[str]) -> tuple[int, int]:
    """Start a command; return its process and the descriptor of the kernel's questions."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        try:
            socket.send_fds(theirs, [b"1"], [listen()])
            os.execvp(command[0], [*command])  # noqa: S606 - no shell is wanted
        finally:
            os._exit(127)
    theirs.close()
    _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    return child, listener


def _serve(listener: int, recorder: Recorder) -> None:
    """Answer until the last process has ended."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while not any(events & select.POLLHUP for _, events in poll.poll()):
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
            number, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
            error, flags = recorder.answer(pid, call, arguments)
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, error, flags))
        except OSError as failed:
            if failed.errno not in (errno.ENOENT, errno.EINTR):  # The process was killed.
                raise


def main() -> None:
    """Read the command line; end as the command does."""
    tree, state, record = map(Path, sys.argv[1:4])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    recorder = Recorder(tree, read_state(state).rows, read_owners(record))
    child, listener = _start(sys.argv[4:])
    _serve(listener, recorder)
    _, status = os.waitpid(child, 0)
    rows = (f"{inode} {user} {group}\n" for inode, (user, group) in recorder.left().items())
    record.write_text("".join(rows))
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
