"""An ordinary user, whom root makes for a test and takes away again."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..programs import run

PREFIX = "lumicontainer-test-"
_ENV = ("env", "--unset=TMPDIR", "--unset=LUMICONTAINER_TMPDIR")
"""Starts a program that keeps its temporary files in /var/tmp, wherever the tests keep theirs."""


@contextmanager
def ordinary(folder: Path, number: int = 0) -> Iterator[list[object]]:
    """Give the start of a command that runs as an ordinary user, in a folder of that user's.

    Root makes a user for it; anybody else is an ordinary user already, and runs in ``folder``. The
    name holds the process it was made for, so that two test runs do not meet, and what a run that
    was killed left behind is taken away. ``number`` distinguishes the users of one process.
    """
    if os.getuid() != 0:
        yield [*_ENV, "-C", folder]
        return
    for left in pwd.getpwall():
        maker = left.pw_name.removeprefix(PREFIX)
        if maker != left.pw_name and not Path("/proc", maker.partition("-")[0]).exists():
            take_away(left)
    name = f"{PREFIX}{os.getpid()}-{number}"
    made = run(["useradd", "--create-home", "--shell", "/bin/bash", name])
    assert made.returncode == 0, made.stderr
    entry = pwd.getpwnam(name)
    home = entry.pw_dir
    try:
        yield ["runuser", "-u", name, "--", *_ENV, "-C", home, f"HOME={home}", f"USER={name}"]
    finally:
        take_away(entry)


def let_in(folder: Path) -> None:
    """Let other users into a folder of the test run, through those above it that are closed."""
    for path in (folder, *folder.parents):
        if path.stat().st_mode & 0o005 != 0o005:
            path.chmod(0o755)


def take_away(entry: pwd.struct_passwd) -> None:
    """Remove what a user kept, and then the user.

    A new user may get the number at once. Userdel locks the list of users while it removes a home,
    and useradd does not wait for long.
    """
    kept = (entry.pw_dir, f"/var/tmp/lumicontainer-{entry.pw_uid}")
    run(["rm", "-rf", "--one-file-system", *kept])
    run(["userdel", "--remove", "--force", entry.pw_name])
