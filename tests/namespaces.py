"""Commands in namespaces that root prepared, run as the user who runs the tests.

Mounts and host names are root's to change; an ordinary user who runs the tests has sudo. In its own
user namespace a command would be root of that namespace, and could not make another one.
"""

import os
from pathlib import Path


def prepared(kind: str, setup: str) -> list[str]:
    """Return the start of a command in a new namespace, after root ran the shell text ``setup``.

    ``kind`` is ``mount`` or ``uts``, as unshare names them.
    """
    private = ["--propagation", "private"] if kind == "mount" else []
    shell = ["bash", "-c", f'{setup} && exec "$@"', "bash"]
    return [*as_root(), "unshare", f"--{kind}", *private, *shell, *_as_before()]


def entered(pid: int) -> list[str]:
    """Return the start of a command that sees the mounts of a process."""
    words = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", f"--wdns={Path.cwd()}", "--"]
    return [*as_root(), *words, *_as_before()]


def owned() -> str:
    """Return the options of mount that give a file system to the user who runs the tests."""
    return f"uid={os.getuid()},gid={os.getgid()}"


def as_root() -> list[str]:
    """Return the start of a command that runs as root, with the environment as it is.

    Only PATH has root's folders besides: on Debian an ordinary user's finds no chroot.
    """
    if os.getuid() == 0:
        return []
    # Sudo sets these to root's, or to its own values, in spite of --preserve-env; TMPDIR is
    # taken from every program with setuid (unsecvars.h of glibc).
    names = ("HOME", "LOGNAME", "TMPDIR", "USER")
    kept = " ".join(f'${{{name}+"{name}=${name}"}}' for name in names)
    path = '"PATH=$PATH:/usr/sbin:/sbin"'
    script = f'exec sudo --non-interactive --preserve-env env {kept} {path} "$@"'
    return ["bash", "-c", script, "bash"]


def ordinary() -> list[str]:
    """Return the start of a command that runs as an ordinary user, who owns the same files."""
    if os.getuid() != 0:
        return []
    return ["unshare", "--user", "--map-user=12345", "--map-group=12345", "--"]


def _as_before() -> list[str]:
    if os.getuid() == 0:
        return []
    return ["setpriv", f"--reuid={os.getuid()}", f"--regid={os.getgid()}", "--init-groups"]
