"""Track what the image does not have: files and variables of lines that were not carried over."""

import posixpath
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import NamedTuple

from lumicontainer.importing.draft import MAX_PATH, NOT_CARRIED, NOT_NEEDED, FileLine
from lumicontainer.importing.replacements import replacement_for

_SYSTEM = re.compile(
    r"/(?:opt|usr(?:/local)?|tmp|var(?:/tmp)?|etc|root|home|mnt)?"
    r"(?:/(?:bin|sbin|lib|lib64|include|share|etc|cache|profile\.d))?(?:/[^/]+-linux-gnu)?"
    r"|/usr/(?:local/)?src"
)
"""Folders to which lines of a file add, and which no line makes alone."""
_STANDARD = re.compile(
    r"/(?:bin|boot|dev|etc|home|lib|lib64|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)?"
    r"|/usr/(?:local/)?(?:bin|etc|games|include|lib|libexec|sbin|share|src)"
    r"|/usr/local|/usr/lib/[^/]+-linux-gnu|/var/(?:cache|lib|local|log|mail|opt|spool|tmp)"
    r"|/etc/(?:profile\.d|ld\.so\.conf\.d|apt)"
)
"""Folders of each image, of Debian and of Ubuntu."""
_BESIDE = "copy files from the context in the last stage, or bind your code"
_COMMON = re.compile(r"/(?:data|workspace|app|code|src)")
"""Folders that several lines of a file fill."""
_ADDRESS = re.compile(r"(?<!\w)\w++://\S+")
_WORD = re.compile(r"[\w.+/~@%{}$*?-]+")
_PYTHON = "python"
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

    def is_environment(self) -> bool:
        """Return whether it is a virtual environment: the layer of Python has one."""
        return self.layer == _PYTHON and self.outcome == NOT_CARRIED

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
    return bool(_STANDARD.fullmatch(path))


class Losses:
    """Hold what lines would have made that were not carried over."""

    def __init__(self) -> None:
        self._paths: dict[str, Lost] = {}
        self._names: dict[str, Lost] = {}
        self._variables: dict[str, Lost] = {}
        self._present: set[str] = set()
        """Paths that later lines make below a folder that is not there."""

    def lose(self, path: str, folder: str, outcome: str = NOT_CARRIED, layer: str = "") -> None:
        """Add a file or a folder that is not there, by its whole name."""
        self._lose(path, folder, Lost(PurePosixPath(path).name, outcome, layer=layer))

    def _lose(self, path: str, folder: str, lost: Lost) -> None:
        whole = whole_path(path, folder)
        if path and not _SYSTEM.fullmatch(whole):
            self._paths[whole] = self._names[PurePosixPath(whole).name] = lost
            self._present.discard(whole)

    def lose_list(self, path: str, folder: str) -> None:
        """Add a list of packages, which is read and not installed: its users are missing."""
        name = PurePosixPath(path).name
        why = f"it uses {name}, which is read for packages and not installed"
        self._lose(path, folder, Lost(name, NOT_CARRIED, why, None))

    def lose_environment(self, path: str, folder: str) -> None:
        """Add a virtual environment: its packages are in the layer's own."""
        own = "the layer python has its own: write the program's plain name"
        why = f"it uses the virtual environment {path}, and {own}"
        self._lose(path, folder, Lost(path, NOT_CARRIED, why, None, _PYTHON))

    def environments_below(self, path: str) -> list[str]:
        """Return the virtual environments that a folder is or has."""
        top = PurePosixPath(whole_path(path, "/"))
        rows = (PurePosixPath(each) for each, lost in self._paths.items() if lost.is_environment())
        return [str(each) for each in rows if top in (each, *each.parents)]

    def lose_product(self, path: str, folder: str, lost: Lost) -> None:
        """Add what a command that is not carried over writes, unless others write there, too."""
        if not _COMMON.fullmatch(whole_path(path, folder)):
            self.lose(path, folder, lost.outcome, lost.layer)

    def lose_variable(self, name: str, outcome: str = NOT_CARRIED) -> None:
        """Add a variable of the shell."""
        self._variables[name] = Lost(f"${name}", outcome)

    def restore(self, path: str, folder: str = "/") -> None:
        """Take a file or a folder off, as a line that is carried over makes it."""
        whole = whole_path(path, folder)
        self._paths.pop(whole, None)
        self._names.pop(PurePosixPath(whole).name, None)
        self._present.add(whole)

    def restore_variable(self, name: str) -> None:
        """Take a variable off, as a line that is carried over sets it."""
        self._variables.pop(name, None)

    def find(self, word: str, folder: str) -> Lost | None:
        """Return what a word names that is not there; None if it names nothing of it."""
        whole = whole_path(word, folder)
        if len(whole) > MAX_PATH or whole in self._present:
            return None
        return self._at(whole) or self._by_name(word, whole)

    def _at(self, whole: str) -> Lost | None:
        """Return what is not there at a path or above it."""
        for path in (whole, *map(str, PurePosixPath(whole).parents)):
            if path in self._present:
                return None
            if lost := self._paths.get(path) or _of_others(path):
                return lost
        return None

    def _by_name(self, word: str, whole: str) -> Lost | None:
        """Return what a word means by a name alone, such as a program, or by a pattern."""
        bare = posixpath.normpath(word) if word else ""
        if "/" not in word and bare in self._names:
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


def add_files_of_stage(
    line: FileLine, stage: str, source: str, losses: Losses, add_packages: Callable[[], bool]
) -> bool:
    """Add what takes the place of a path of a stage, of which ``losses`` are not there.

    ``add_packages`` adds those that the stage installs, and returns False if there are none.
    Returns whether they are all that the path has.
    """
    lost = losses.find(source, "/")
    is_inside = bool(lost and lost.is_environment())
    environments = losses.environments_below(source)
    by_name = "packages" in replacement_for("stage_files", source)
    if (by_name or is_inside or environments) and add_packages():
        if by_name or is_inside or whole_path(source, "/") in environments:
            return True
        lacking = f"{source} of {stage}, but for its virtual environment"
        line.part(f"{source} of {stage}").refuse(_BESIDE, lacking)
    elif lost and lost.layer and not is_inside:
        line.replace(lost.layer)
    elif lost and lost.outcome == NOT_NEEDED:
        lost.note(line)
    else:
        line.refuse_files(stage, source)
    return False


def _of_others(path: str) -> Lost | None:
    """Return what a path of other images is, such as /opt/conda; None if it may be there."""
    row = replacement_for("absent", path)
    if "drop" in row:
        return Lost(path, NOT_NEEDED, row["drop"])
    return Lost(path, NOT_CARRIED, row["refuse"], row.get("missing")) if row else None
