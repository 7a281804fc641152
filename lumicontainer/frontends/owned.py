"""Write files into folders of other programs, and replace no file of theirs."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import Problem
from lumicontainer.system.files import trust
from lumicontainer.system.files.write import replace, write_whole

MARK = "Written by lumicontainer"
_BEGINNING = 4096


class OwnFile(NamedTuple):
    """Hold a file that has ``MARK`` near its beginning, or a symbolic link."""

    path: Path
    content: str = ""
    link: str = ""
    executable: bool = False


def not_own(files: Iterable[OwnFile], hint: str) -> Iterator[Problem]:
    """Yield a problem for each path that another program has, and each folder that is not safe."""
    files = list(files)
    for folder in dict.fromkeys(each.path.parent for each in files):
        if problem := trust.doubt_programs(folder, "this folder", "--prefix"):
            yield problem
    for each in files:
        if each.path.is_symlink():
            is_own = bool(each.link)
        elif each.path.exists():
            is_own = not each.link and each.path.is_file() and MARK in _beginning(each.path)
        else:
            continue
        if not is_own:
            yield in_the_way(each.path, hint)


def in_the_way(path: Path, hint: str) -> Problem:
    """Return the message for a file of another program that has the name of one of ours."""
    why = "lumicontainer did not write it, and replaces only its own files"
    return Problem("a file of another program is in the way", str(path), why, hint)


def _beginning(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_BEGINNING)


def write_files(files: Iterable[OwnFile]) -> Iterator[Path]:
    """Write the files that differ, each in one step; yield their paths."""
    for each in files:
        if _is_there(each):
            continue
        each.path.parent.mkdir(parents=True, exist_ok=True)
        if each.link:
            draft = each.path.with_name(f".{each.path.name}.{os.getpid()}")
            draft.symlink_to(each.link)
            replace(draft, each.path)
        else:
            write_whole(each.path, each.content.encode(), executable=each.executable)
            yield each.path


def _is_there(file: OwnFile) -> bool:
    if file.path.is_symlink():
        return str(file.path.readlink()) == file.link
    return file.path.is_file() and file.path.read_bytes() == file.content.encode()
