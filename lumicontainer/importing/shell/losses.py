"""Track what the image does not have: files and variables of lines that were not carried over."""

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import NamedTuple

from lumicontainer.importing.draft import MAX_PATH, NOT_CARRIED, NOT_NEEDED, FileLine
from lumicontainer.importing.replacements import replacement_for

_SYSTEM = re.compile(
    r"/(?:opt|usr(?:/local)?|tmp|var(?:/tmp)?|etc|root|home|mnt)?"
    r"(?:/(?:bin|sbin|lib|lib64|include|share|src|etc|cache|profile\.d))?(?:/[^/]+-linux-gnu)?"
)
"""Folders of each image."""
_COMMON = re.compile(r"/(?:data|workspace|app|code|src)")
"""Folders that several lines of a file fill."""
_ADDRESS = re.compile(r"(?<!\w)\w++://\S+")
_WORD = re.compile(r"[\w.+/~@%{}$*?-]+")
UNKNOWN = "/\0unknown"
"""Stands for a folder that is not known."""


class Lost(NamedTuple):
    """Name what the image does not have, and what becomes of lines that use it."""

    name: str
    outcome: str = NOT_CARRIED
    why: str = ""
    """The reason if no line gave it yet."""
    missing: str | None = ""
    """The part that the image lacks for a line that uses it; None is the line itself."""
    layer: str = ""
    """The layer that has it."""

    def note(self, line: FileLine, verb: str = "uses") -> None:
        """Add what becomes of a line that uses it."""
        why = self.why or f"it {verb} {self.name}, which is not there"
        if self.outcome == NOT_CARRIED:
            line.refuse(why, self.missing)
        else:
            line.note(self.outcome, why)


def whole_path(path: str, folder: str) -> str:
    """Return the absolute path of a word in a folder, without ``.`` and ``..``."""
    whole = posixpath.normpath(posixpath.join(folder or "/", path))
    return f"/{whole.lstrip('/')}"


def is_of_system(path: str) -> bool:
    """Return whether a path is a folder of each image."""
    return bool(_SYSTEM.fullmatch(path))


class Losses:
    """Hold what lines would have made that were not carried over."""

    def __init__(self) -> None:
        self._paths: dict[str, Lost] = {}
        self._names: dict[str, Lost] = {}
        self._variables: dict[str, Lost] = {}

    def lose(self, path: str, folder: str, outcome: str = NOT_CARRIED, layer: str = "") -> None:
        """Add a file or a folder that is not there, by its whole name."""
        whole = whole_path(path, folder)
        if path and not _SYSTEM.fullmatch(whole):
            name = PurePosixPath(whole).name
            self._paths[whole] = self._names[name] = Lost(name, outcome, layer=layer)

    def lose_product(self, path: str, folder: str, lost: Lost) -> None:
        """Add what a command that is not carried over writes, unless others write there, too."""
        if not _COMMON.fullmatch(whole_path(path, folder)):
            self.lose(path, folder, lost.outcome, lost.layer)

    def lose_variable(self, name: str, outcome: str = NOT_CARRIED) -> None:
        """Add a variable of the shell."""
        self._variables[name] = Lost(f"${name}", outcome)

    def restore(self, path: str, folder: str = "/") -> None:
        """Take a file or a folder off, as a line that is carried over makes it."""
        lost = self._paths.pop(whole_path(path, folder), None)
        if lost:
            self._names.pop(lost.name, None)

    def restore_variable(self, name: str) -> None:
        """Take a variable off, as a line that is carried over sets it."""
        self._variables.pop(name, None)

    def find(self, word: str, folder: str) -> Lost | None:
        """Return what a word names that is not there; None if it names nothing of it."""
        whole = whole_path(word, folder)
        if len(whole) > MAX_PATH:
            return None
        for path in (whole, *map(str, PurePosixPath(whole).parents)):
            if lost := self._paths.get(path) or _of_others(path):
                return lost
        bare = posixpath.normpath(word) if word else ""
        if "/" not in bare and bare in self._names:
            return self._names[bare]
        first = bare.partition("/")[0]
        if not bare.startswith(("/", ".")) and UNKNOWN in whole and first in self._names:
            return self._names[first]
        if "*" in word or "?" in word:
            matching = (lost for path, lost in self._paths.items() if fnmatchcase(path, whole))
            return next(matching, None)
        return None

    def find_in(self, text: str, folder: str) -> Lost | None:
        """Return the first thing that a text names and that is not there."""
        named = {*re.findall(r"\$\{?(\w+)", text)} if self._variables else ()
        lost = next((self._variables[name] for name in named if name in self._variables), None)
        return lost or next(self._each_in(text, folder), None)

    def _each_in(self, text: str, folder: str) -> Iterator[Lost]:
        for word in _WORD.findall(_ADDRESS.sub("", text)):
            if lost := self.find(word, folder):
                yield lost


def _of_others(path: str) -> Lost | None:
    """Return what a path of other images is, such as /opt/conda; None if it may be there."""
    row = replacement_for("absent", path)
    if "drop" in row:
        return Lost(path, NOT_NEEDED, row["drop"])
    return Lost(path, NOT_CARRIED, row["refuse"], row.get("missing")) if row else None
