"""Run a command for whom the kernel makes no user namespace, as on LUMI's nodes.

Usage: python deny_namespaces.py COMMAND...

A filter of seccomp denies ``unshare`` and ``clone``; who starts it needs no right for that. If root
starts it, programs with setuid still get their rights. ``clone3`` passes: a filter cannot read its
flags, and no program of the tests makes a user namespace by it. Denied, glibc would use ``clone``
in its place for every ``posix_spawn``, which LUMI's kernel does not cause, and of whose programs
about a tenth die under PRoot 5.1: it loses the heap of both processes (corrected in PRoot 5.2).
"""

import ctypes
import os
import platform
import struct
import sys

NEW_USER = 0x10000000
NO_NEW_PRIVILEGES = 38
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, DENY = 0x7FFF0000, 0x00050001
SECCOMP, UNSHARE, CLONE = {
    "x86_64": (317, 272, 56),
    "aarch64": (277, 97, 220),
}[platform.machine()]
PROGRAM = (
    (LOAD, 0, 0, 0),
    (EQUAL, 1, 0, UNSHARE),
    (EQUAL, 0, 2, CLONE),
    (LOAD, 0, 0, 16),
    (ANY_BIT, 1, 0, NEW_USER),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, DENY),
)


def deny() -> None:
    """Install the filter in this process."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in PROGRAM))
    head = ctypes.create_string_buffer(struct.pack("H6xQ", len(PROGRAM), ctypes.addressof(code)))
    library = ctypes.CDLL(None, use_errno=True)
    if os.geteuid():
        library.prctl(NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    words = map(ctypes.c_long, (SECCOMP, 1, 0))
    if library.syscall(*words, ctypes.c_void_p(ctypes.addressof(head))):
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    deny()
    os.execvp(sys.argv[1], sys.argv[1:])
