"""A file is written whole, however many write it, and outlasts a power cut."""

import ast
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from lumicontainer.api.new_files import write_folder
from lumicontainer.core.model.files import LayerFile
from lumicontainer.frontends.owned import OwnFile, write_files
from lumicontainer.system.files.write import replace, write_new, write_whole

from ....conftest import ROOT


def test_two_threads_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write(letter: bytes) -> None:
        for _ in range(500):
            write_whole(path, letter * 1000)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, (b"a", b"b")))
    assert path.read_bytes() in (b"a" * 1000, b"b" * 1000)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_the_umask_decides_who_may_read_and_run_a_file(
    tmp_path: Path, umask: int, mode: int
) -> None:
    plain, program = tmp_path / "plain", tmp_path / "program"
    before = os.umask(umask)
    try:
        write_whole(plain, b"")
        write_whole(program, b"", executable=True)
    finally:
        os.umask(before)
    assert plain.stat().st_mode & 0o777 == mode
    assert program.stat().st_mode & 0o777 == mode | (mode & 0o444) >> 2


Write = Callable[[Path], object]


def write_draft(path: Path) -> None:
    draft = path.with_name("draft")
    draft.touch()
    replace(draft, path)


def write_own(path: Path) -> None:
    assert list(write_files([OwnFile(path, "text")])) == [path]


def write_recipe(path: Path) -> None:
    write_folder(path.parent, {path.name: LayerFile(path.name, 0o644, b"text")})


WRITERS: dict[str, Write] = {
    "a lock": partial(write_whole, content=b"text"),
    "a new file": partial(write_new, content=b"text"),
    "an image": write_draft,
    "a module file": write_own,
    "a recipe": write_recipe,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_is_flushed_before_it_gets_its_name_and_its_folder_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    path, flushed = tmp_path / "file", list[tuple[int, bool]]()
    flush = os.fsync

    def record(descriptor: int) -> None:
        flushed.append((os.fstat(descriptor).st_ino, path.exists()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    write(path)
    file, folder = (path.stat().st_ino, False), (tmp_path.stat().st_ino, True)
    assert flushed[:2] == [file, folder]


@pytest.mark.parametrize("refuses", [None, PermissionError(1, "no links"), OSError(95, "no links")])
def test_a_new_file_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: OSError | None
) -> None:
    def link(*_: object) -> None:
        assert refuses is not None
        raise refuses

    if refuses:
        monkeypatch.setattr(os, "link", link)
    path, taken = tmp_path / "new", tmp_path / "taken"
    taken.symlink_to("nowhere")
    write_new(path, b"text")
    assert path.read_bytes() == b"text"
    for each in (path, taken):
        with pytest.raises(OSError, match=r"exists|no links"):
            write_new(each, b"other")
    assert (path.read_bytes(), taken.is_symlink()) == (b"text", True)
    assert {each.name for each in tmp_path.iterdir()} == {"new", "taken"}


USERS = ("commands", "frontends", "api", "pinning", "extending", "verify", "jobs")
OWN_TREES = {
    "extending/into.py": ["tree.rename"],
    "extending/install/download.py": ["os.link"],
    "jobs/folders.py": ["folder.rename"],
}
"""Modules that rename trees of which users see nothing, each with its calls."""


def renames(file: Path) -> Iterator[str]:
    """Yield the functions that a module calls to give a file another name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            moves = node.func.attr in ("replace", "rename") and len(node.args) == 1
            if (moves and not node.keywords) or node.func.attr in ("link", "move"):
                yield ast.unparse(node.func)


def test_files_of_users_get_their_names_in_one_place() -> None:
    package = ROOT / "lumicontainer"
    files = [file for name in USERS for file in (package / name).rglob("*.py")]
    calls_of = {str(file.relative_to(package)): list(renames(file)) for file in files}
    assert {file: calls for file, calls in calls_of.items() if calls} == OWN_TREES
