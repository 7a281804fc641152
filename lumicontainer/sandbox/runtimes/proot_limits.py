"""Find in the scripts of layers what PRoot cannot do, before a step runs for an hour and fails.

Each was seen to fail with PRoot 5.1. Programs of another user do not fail: su and runuser start
them, and all that they write belongs to root.
"""

import re
from collections.abc import Iterator

from lumicontainer.core.model import LayerFile
from lumicontainer.core.resolve.decisions import ResolvedLayer
from lumicontainer.errors import Place, Problem

_LIMITS = {
    r"mknod\b(?!.*\sp\b)": (
        "PRoot cannot make device nodes",
        "leave out mknod: engines show the host's /dev",
    ),
    r"(mount|umount|losetup)\b": (
        "PRoot cannot mount file systems",
        "copy or unpack the files instead",
    ),
    r"setcap\b": (
        "PRoot cannot give capabilities to files",
        "leave out setcap: engines ignore capabilities of files",
    ),
    r"(sudo|su|runuser|setpriv|gosu)\b": (
        "with PRoot, files that a program of another user writes belong to root",
        "run the program as root, and give its files to the user by chown",
    ),
}
"""For regular expressions of programs: why they fail, and a hint."""
_START = r"(?:^|[;&|({`]|\b(?:then|do|else|exec|env)\s)\s*(?:\w+=\S*\s+)*(?:/\S*/)?"
_HANDLED = r"(?!.*\|\|)"
"""A script that goes on after the failure does not need the program."""
_HERE_DOCUMENT = re.compile(r"<<-?\s*['\"]?(\w+)")


def problems(layer: ResolvedLayer) -> Iterator[Problem]:
    """Yield what PRoot cannot do in a layer, each with its line."""
    for file in layer.files:
        if file.name.endswith(".sh"):
            yield from _problems(f"{layer.folder}/{file.name}", file)


def _problems(path: str, file: LayerFile) -> Iterator[Problem]:
    for number, code in _commands(file.content.decode("utf-8", "replace")):
        for program, (why, hint) in _LIMITS.items():
            if re.search(f"{_START}{program}{_HANDLED}", code):
                where = str(Place(path, number))
                yield Problem("cannot build this layer with PRoot", where, why, hint)


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that begin commands, with their numbers and without comments."""
    end, continued = "", False
    for number, line in enumerate(text.splitlines(), 1):
        if end:
            end = end if line.strip() != end else ""
            continue
        if not continued:
            yield number, re.sub(r"(^|\s)#.*", "", line)
        continued = line.endswith("\\")
        if match := _HERE_DOCUMENT.search(line):
            end = match[1]
