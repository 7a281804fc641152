"""Judge the files of a layer's folder: scripts that cannot run, and names that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from lumicontainer.core.apptainer_syntax import hazards
from lumicontainer.core.model import LayerFile
from lumicontainer.core.schema.check import BEGIN, FOLDER, SUFFIXES, is_check
from lumicontainer.core.yaml.validators import ACCELERATORS, COMPILE, FINISH, SCRIPT
from lumicontainer.errors import Place, Problems, did_you_mean, nearest

_NAMES = (SCRIPT, COMPILE, FINISH)
_FOLDERS = (FOLDER.rstrip("/"), *ACCELERATORS)
_COPIES = ("~", ".orig", ".rej", ".bak", ".swp", ".tmp")
"""Ends of names that editors and patch give to copies."""


def judge(
    scripts: Mapping[str, Place | None],
    files: Sequence[LayerFile],
    file: str,
    text: str,
    problems: Problems,
) -> None:
    """Note what is wrong with the files of a layer, whose layer.yaml is ``file`` with this text.

    ``scripts`` are the files that are run, with the place that names each; those that none names
    need not be there.
    """
    folder = file.removesuffix("layer.yaml")
    there = {each.name: each.content for each in files}
    for script, place in scripts.items():
        if script in there:
            check_script(folder + script, there[script], problems)
        elif place is not None:
            known = [each for each in there if each.endswith(".sh") and "checks/" not in each]
            hint = did_you_mean(script, known) or "add the file"
            problems.add(f"the layer's folder has no file '{script}'", place, hint=hint)
    for each in files:
        if each.name.startswith(FOLDER) and each.name.endswith(".sh"):
            _check_lines(folder + each.name, each.content, problems)
    _refuse_lost_checks(files, folder, problems)
    for found, meant in _misspelled(files, text.encode("utf-8", "surrogateescape")):
        what = f"nothing uses '{found}'"
        hint = f"did you mean '{meant}'? Rename it, or name it in {SCRIPT}"
        problems.add(what, folder + found, hint=hint)


def check_script(path: str, content: bytes, problems: Problems) -> None:
    """Note why a script cannot stand in a definition, or would not run as it reads."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        problems.add("the script is not UTF-8 text", Place(path), why=str(error))
        return
    _check_lines(path, content, problems)
    for number, reason in hazards(text):
        hint = "write the line so that it begins otherwise, or put the text in a file beside it"
        problems.add(
            "a line of the script cannot stand in a definition",
            Place(path, number),
            why=reason,
            hint=hint,
        )


def _check_lines(path: str, content: bytes, problems: Problems) -> None:
    """Note lines that end as on Windows: to bash the carriage return is a part of the last word."""
    before, found, _ = content.partition(b"\r\n")
    if found:
        place = Place(path, before.count(b"\n") + 1)
        hint = f"sed -i 's/\\r$//' {path}"
        problems.add("the script has Windows line endings (CRLF)", place, hint=hint)


def _refuse_lost_checks(files: Sequence[LayerFile], folder: str, problems: Problems) -> None:
    """Note files that say to be checks and are not taken for one."""
    for file in files:
        if is_check(file.name) or not _says_check(file):
            continue
        path = PurePosixPath(file.name)
        if not file.name.startswith(FOLDER):
            hint = f"move it to {FOLDER}{path.name}"
        elif path.suffix not in SUFFIXES:
            hint = f"let its name end in {' or '.join(SUFFIXES)}"
        else:
            hint = "let its name begin without '_'"
        what = "this check is in no place where checks are read"
        problems.add(what, folder + file.name, hint=hint)


def _says_check(file: LayerFile) -> bool:
    return BEGIN.encode() in file.content.splitlines()


def _misspelled(files: Sequence[LayerFile], text: bytes) -> Iterator[tuple[str, str]]:
    """Yield names that nothing mentions, with the known name of which each is a near miss.

    Where the known one is there too, the other name is meant.
    """
    tops = dict.fromkeys(file.name.partition("/")[0] for file in files)
    folders = {file.name.partition("/")[0] for file in files if "/" in file.name}
    for name in tops:
        if name.startswith((".", "#")) or name.endswith(_COPIES):
            continue
        known = _FOLDERS if name in folders else _NAMES
        meant = nearest(name, known)
        if not meant or meant in tops or _mentioned(name, files, text):
            continue
        mark = "/" if name in folders else ""
        yield name + mark, meant + mark


def _mentioned(name: str, files: Sequence[LayerFile], text: bytes) -> bool:
    word = name.encode("utf-8", "surrogateescape")
    others = (each.content for each in files if each.name.partition("/")[0] != name)
    return word in text or any(word in content for content in others)
