"""Say what a command makes: the files, folders and variables that others use after it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from lumicontainer.importing.shell.losses import is_of_system
from lumicontainer.importing.shell.words import Command

_MOST = 4
"""The folders of a command that each archive may be unpacked to, and the names of one in it."""
ARCHIVE = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz|zip)$")
_REDIRECTION = re.compile(r"[^>&0-9-][12]?>{1,2}\s*[\"']?([\w./+@{}$~-]+)")
_FOLDER = re.compile(r"\s(?:-C|--directory)[ =]?[\"']?([\w./+-]+)")
_TAR = re.compile(r"\btar\b")
_FUNCTION = re.compile(r"^\s*(?:function\s+(\w+)|(\w+)\s*\(\s*\)\s*\{)")
_PREFIX = re.compile(r"(?:--prefix=|-DCMAKE_INSTALL_PREFIX=)[\"']?([\w./+-]+)")
_CONDA = re.compile(r"(?i)(?:conda|mamba|forge)[\w.-]*\.sh$")
"""The script that installs conda."""
_NO_FOLDER = re.compile(r"-|(?:python)?[\d.]+$|venv$|virtualenv$|python[\d.]*$")
_SETS = re.compile(r"(?:export\s+|local\s+|declare\s+(?:-\w+\s+)?)?([A-Za-z_]\w*)=")


def products(text: str, command: Command | None) -> Iterator[str]:
    """Yield the paths that a command writes, as it names them."""
    yield from _PREFIX.findall(text)
    yield from (first or second for first, second in _FUNCTION.findall(text))
    if command is None:
        yield from _REDIRECTION.findall(text)
        yield from _of_archives(text)
        return
    yield from command.outputs
    yield from _READERS.get(command.program(), _nothing)(command.words[1:])


def environment(words: Sequence[str]) -> str:
    """Return the folder of packages that a command makes, other than the layer's; empty if none."""
    program, *rest = words or ("",)
    if program == "virtualenv" or rest[:2] == ["-m", "venv"] or rest[:2] == ["-m", "virtualenv"]:
        named = [word for word in rest if not _NO_FOLDER.match(word)]
        return named[-1] if named else ""
    if program == "uv" and rest[:1] in (["venv"], ["sync"]):
        named = [word for word in rest[1:] if not _NO_FOLDER.match(word)]
        return named[-1] if named and rest[0] == "venv" else ".venv"
    if program in ("pip", "uv") and "install" in rest:
        return value_of(rest, "-t", "--target", "--prefix", "--root")
    if program in ("bash", "sh") and any(map(_CONDA.search, rest)):
        return value_of(rest, "-p", "--prefix")
    if program in ("conda", "mamba", "micromamba") and "create" in rest:
        return value_of(rest, "-p", "--prefix")
    return ""


def variables(text: str) -> list[str]:
    """Return the variables that a command sets, but for lists of folders, which others extend."""
    match = _SETS.match(text)
    return [match[1]] if match and not match[1].endswith("PATH") else []


def _nothing(words: Sequence[str]) -> Iterator[str]:
    del words
    yield from ()


def _all(words: Sequence[str]) -> Iterator[str]:
    yield from (word for word in words if not word.startswith("-"))


def _target(words: Sequence[str]) -> Iterator[str]:
    """Yield what a copy writes: the last word, or a file of each name in it if it is a folder."""
    *sources, target = [*_all(words)] or [""]
    yield target
    if len(sources) > 1 or target.endswith(("/", ".")) or is_of_system(target):
        yield from (f"{target}/{PurePosixPath(each).name}" for each in sources)


def _saved(words: Sequence[str]) -> Iterator[str]:
    yield saved_as(["curl", *words])


def _unpacked(words: Sequence[str]) -> Iterator[str]:
    folder = value_of(words, "-C", "--directory", "-d")
    if folder:
        yield folder
    for word in words:
        if ARCHIVE.search(word):
            yield from (f"{folder}/{name}" if folder else name for name in _stems(word))


def _of_archives(text: str) -> Iterator[str]:
    tars = (part.partition("tar")[2] for part in re.split("[|;&]", text) if _TAR.search(part))
    targets = [folder for part in tars for folder in _FOLDER.findall(part)[-1:]]
    yield from targets
    folders = [*dict.fromkeys(targets)][:_MOST]
    for word in dict.fromkeys(re.findall(r"[\w.+/:~%-]+", text)):
        if ARCHIVE.search(word):
            for name in _stems(word):
                yield from (name, *(f"{folder}/{name}" for folder in folders))


def _stems(archive: str) -> Iterator[str]:
    """Yield the folders that an archive may hold: its name, also without the machine behind."""
    name = ARCHIVE.sub("", PurePosixPath(archive).name)
    for _ in range(_MOST):
        yield name
        name, _, _ = name.rpartition("-")
        if not re.search(r"\d", name):
            return


def value_of(words: Sequence[str], *options: str) -> str:
    """Return the value of an option, in any form; empty if it is not there."""
    for number, word in enumerate(words):
        for option in options:
            if word == option:
                return next(iter(words[number + 1 :]), "")
            if word.startswith(f"{option}=") and option.startswith("--"):
                return word.partition("=")[2]
            if word.startswith(option) and not option.startswith("--") and len(word) > len(option):
                return word[len(option) :].removeprefix("=")
    return ""


def saved_as(words: Sequence[str]) -> str:
    """Return the path that ``curl`` or ``wget`` writes by an option; empty if the URL names it."""
    long, letter = ("--output-document", "O") if words[:1] == ["wget"] else ("--output", "o")
    for number, word in enumerate(words):
        if word == long or re.fullmatch(rf"-[A-Za-z]*{letter}", word):
            return next(iter(words[number + 1 :]), "")
        if word.startswith(f"{long}="):
            return word.partition("=")[2]
        if match := re.fullmatch(rf"-[a-zA-NP-Z]*?{letter}=?(.+)", word):
            return match[1]
    return ""


_READERS: Mapping[str, Callable[[Sequence[str]], Iterator[str]]] = {
    **dict.fromkeys(("mkdir", "touch", "tee"), _all),
    **dict.fromkeys(("cp", "mv", "ln", "install", "rsync"), _target),
    **dict.fromkeys(("tar", "unzip"), _unpacked),
}
"""By program: what yields the paths that its words say it writes."""
