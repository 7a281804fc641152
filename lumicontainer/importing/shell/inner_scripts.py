"""Look into the scripts of a copied folder that commands of a file run."""

import re
from collections.abc import Sequence

from lumicontainer.errors import InputError
from lumicontainer.importing.copies import Copies
from lumicontainer.importing.replacements import table
from lumicontainer.importing.shell.losses import whole_path
from lumicontainer.importing.shell.products import value_of
from lumicontainer.importing.shell.words import Command
from lumicontainer.system.files.recipe_folder import read_bytes

_RUNS = re.compile(r"\.|source|exec|(?:ba|da)?sh|python[\d.]*|perl")
"""Programs that run the script which is their first word."""
_COMMENT = re.compile(r"(?m)^[^\S\n]*+#.*$")


_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def _makefile(words: Sequence[str], folder: str, copies: Copies) -> str:
    """Return the path of the file that ``make`` reads; empty if no line copies it."""
    place = whole_path(value_of(words, "-C", "--directory"), folder)
    named = value_of(words, "-f", "--file", "--makefile")
    paths = (whole_path(name, place) for name in ([named] if named else _MAKEFILES))
    return next((path for path in paths if copies.find(path)), "")


def find_installer(command: Command | None, text: str, folder: str, copies: Copies) -> str:
    """Return the name of the script that a command runs, if that downloads anything; else "".

    ``text`` is the command as it stands, with the path of its program.
    """
    words = command.words if command else ()
    if words and words[0] == "make":
        words = (_makefile(words[1:], folder, copies),)
    first = (text.split() or [""])[0]
    if words and words[0] == first.rpartition("/")[2]:
        words = (first, *words[1:])
    if words and _RUNS.fullmatch(words[0].rpartition("/")[2]):
        words = tuple(word for word in words[1:] if word[:1] != "-")
    name = copies.find(whole_path(words[0], folder)) if words and words[0] else ""
    if not name or not copies.draft.has_file(name):
        return ""
    try:
        script = read_bytes(copies.draft.folder, name).decode("utf-8", "replace")
    except InputError:
        return ""
    return name if re.search(table()["downloads"], _COMMENT.sub("", script)) else ""
