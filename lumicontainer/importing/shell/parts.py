"""Hold a command of shell text with what is known of it, and where it runs."""

import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from lumicontainer.importing.draft import FileLine
from lumicontainer.importing.shell.words import Command
from lumicontainer.system import process

_WORDS = re.compile(r"(?=[@%+=:, ]*+[\w./-])[\w@%+=:,./ -]+", re.ASCII)
"""Words without a character that is more than itself to a shell."""
_RESERVED = (
    *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac"),
    *("select", "function", "time", "coproc", "in"),
)
ENTERS = ("cd", "pushd")


class ShellPart(NamedTuple):
    """Hold one command with what is known of it."""

    line: FileLine
    command: Command | None
    plain: str
    """Its text with the values of known variables."""
    several: bool
    """Whether it is more than words: a pipe, a loop, a redirection, a heredoc."""


class ShellScope:
    """Hold where the commands of one text run, and the variables that they set."""

    def __init__(self, folder: str, values: Mapping[str, str], level: int = 0) -> None:
        self.folder = self.real = folder
        """The folder of the file's commands, and the folder of the kept ones."""
        self.values = dict(values)
        self.level = level
        """The groups that the commands are in."""
        self.before: list[str] = []

    def follow(self) -> list[str]:
        """Return the line by which kept commands get to the folder of the file's."""
        is_there, self.real = self.real == self.folder, self.folder
        return [] if is_there else [f"cd {shlex.quote(self.folder)}"]


def enters(part: ShellPart) -> bool:
    """Return whether a command changes the folder of those behind it."""
    if part.command is None:
        return bool(re.match(r"(?:cd|pushd)\s", part.line.text)) and not part.several
    return part.command.program() in (*ENTERS, "popd")


def strip_wrappers(text: str) -> str:
    """Return a command without ``sudo`` and the variables that are set for it alone."""
    bare = text.replace("\\\n", " ")
    return re.sub(r"^\s*(?:(?:sudo|env|time|-[A-Z])\s+|[A-Za-z_]\w*=[^\s'\"$]*\s+)+", "", bare)


def find_syntax_error(text: str) -> str:
    """Return why bash cannot run a text, or an empty text."""
    if _WORDS.fullmatch(text) and text.split(maxsplit=1)[0] not in _RESERVED:
        return ""
    command = ["bash", "--norc", "--noprofile", "-O", "extglob", "-n"]
    done = process.run_to_end(command, env={"PATH": "/usr/bin:/bin"}, stdin=text.encode())
    return "bash cannot parse it" if done.returncode or done.stderr else ""
