"""Ask bash whether it can parse a script, without running it."""

import re

from lumicontainer.system import process
from lumicontainer.system.terminal.output import clean

_LINE = re.compile(r"^.*?line ([0-9]+): (.*)$", re.MULTILINE)
_ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
"""English messages, without BASH_ENV and functions of the user."""


def find_syntax_fault(content: bytes) -> tuple[int, str] | None:
    """Return the line that bash cannot parse, and why; None if it is valid.

    With -n bash ignores ``shopt -s extglob``, so a second run enables it.
    """
    for options in ([], ["-O", "extglob"]):
        command = ["bash", "--norc", "--noprofile", *options, "-n"]
        done = process.run_to_end(command, env=_ENVIRONMENT, stdin=content)
        place = _LINE.search(clean(done.stderr))
        if not done.returncode and not place:
            return None
    return (int(place[1]), place[2]) if place else (1, clean(done.stderr).strip())
