"""Read the files of a recipe folder: regular files only, and no symbolic links.

The author of a folder must not decide what else of this host is read. A link may lead to any file,
a pipe may never end, and a device may act when it is opened.
"""

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lumicontainer.errors import InputError, Place, Problem, Problems
from lumicontainer.system.files.regular import kind, open_no_link
from lumicontainer.system.os_errors import general_hint

MAX_FILE_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_FILES = 5000
MAX_FOLDER_BYTES = 64 << 20
"""All files of a folder are in memory at the same time."""
NAME_INPUTS = "remove it; name large inputs under 'sources' of a layer"
"""The hint for a large file of a layer."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_LEFT = re.compile(r"\.[#_].*|#.*#|.*~|\..*\.sw[a-p]|\.DS_Store", re.DOTALL)
"""Names of what Emacs, vim and other editors, and macOS, leave in folders."""


class FolderFile(NamedTuple):
    """Hold one file of a folder: its relative name, mode and content."""

    name: str
    mode: int
    content: bytes


def display(path: Path) -> str:
    """Return a path relative to the current folder if it is below it, on one printable line."""
    relative = os.path.relpath(path)
    shown = relative if not relative.startswith("..") else str(path)
    return shown if shown.isprintable() else ascii(shown)


def read_text(root: Path, name: str) -> str:
    """Return the text of a file below ``root``; raise ``InputError`` if it is not UTF-8."""
    try:
        return read_bytes(root, name).decode("utf-8")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
        where, hint = str(Place(display(root / name), line, column)), "save the file as UTF-8"
        problem = Problem("expected UTF-8 text", where, error.reason, hint)
        raise InputError(problem) from error


def read_bytes(root: Path, name: str, *, large: str = "shorten it") -> bytes:
    """Return the file ``name`` below ``root``; raise ``InputError`` if it is not a regular file.

    Only ``root`` itself may be a link. ``large`` is the hint if the file is too large.
    """
    folders, file = PurePosixPath(name).parts[:-1], PurePosixPath(name).name
    with _open_folder(root, folders) as folder:
        _refuse(_state(folder, file, root / name), root / name)
        return _content(folder, file, root / name, large)


def _keep_all(path: str) -> bool:
    del path
    return False


def files_below(
    root: Path, name: str, problems: Problems, skip: Callable[[str], bool] = _keep_all
) -> Iterator[FolderFile]:
    """Yield the files of a folder below ``root``, sorted; add read errors to ``problems``.

    Skips files that editors and desktops leave there, and each path in the folder that ``skip``
    names; the path of a folder ends with a slash.
    """
    path = root / name
    try:
        with _open_folder(root, PurePosixPath(name).parts) as folder:
            size = 0
            for number, each in enumerate(_walk(folder, path, problems, skip)):
                size += len(each.content)
                if number == MAX_FILES:
                    raise _error(path, f"a folder of more than {MAX_FILES} files")
                if size > MAX_FOLDER_BYTES:
                    what = f"a folder of more than {MAX_FOLDER_BYTES >> 20} MiB"
                    raise _error(path, what, hint=NAME_INPUTS)
                yield each
    except InputError as error:
        problems.noted.extend(error.problems)


def _walk(
    folder: int, path: Path, problems: Problems, skip: Callable[[str], bool], within: str = ""
) -> Iterator[FolderFile]:
    if within.count("/") > MAX_DEPTH:
        raise _error(path / within, f"folders nested more than {MAX_DEPTH} deep")
    for file in sorted(each for each in os.listdir(folder) if not _LEFT.fullmatch(each)):
        name = f"{within}{file}"
        here = path / name
        try:
            state = _state(folder, file, here)
            if skip(f"{name}/" if stat.S_ISDIR(state.st_mode) else name):
                continue
            if stat.S_ISDIR(state.st_mode):
                with _open_folder_in(folder, file, here) as below:
                    yield from _walk(below, path, problems, skip, f"{name}/")
                continue
            _refuse(state, here)
            mode = 0o755 if state.st_mode & stat.S_IXUSR else 0o644
            content = _content(folder, file, here, NAME_INPUTS)
        except InputError as error:
            problems.noted.extend(error.problems)
            continue
        yield FolderFile(name, mode, content)


@contextlib.contextmanager
def _open_folder(root: Path, folders: tuple[str, ...]) -> Iterator[int]:
    """Open a folder below ``root`` without following links."""
    with contextlib.ExitStack() as stack:
        with _reading(root, "folder"):
            folder = os.open(root, _FLAGS | os.O_DIRECTORY)
        stack.callback(os.close, folder)
        path = root
        for name in folders:
            path = path / name
            _refuse(_state(folder, name, path), path, folder=True)
            folder = stack.enter_context(_open_folder_in(folder, name, path))
        yield folder


@contextlib.contextmanager
def _open_folder_in(folder: int, name: str, path: Path) -> Iterator[int]:
    """Open a folder in another one; a link that replaced it is not followed."""
    with _reading(path, "folder"):
        below = os.open(name, _FLAGS | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        yield below
    finally:
        os.close(below)


@contextlib.contextmanager
def _reading(path: Path, kind: str = "file") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why, hint = error.strerror or str(error), general_hint(error.errno)
        raise InputError(Problem(f"cannot read the {kind}", display(path), why, hint)) from error


def _state(folder: int, name: str, path: Path) -> os.stat_result:
    with _reading(path):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _content(folder: int, name: str, path: Path, large: str) -> bytes:
    # The file may have been replaced, and it may grow.
    with _reading(path), open_no_link(name, folder) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _error(path, f"a file of more than {MAX_FILE_BYTES >> 20} MiB", hint=large)
    return content


def _refuse(state: os.stat_result, path: Path, *, folder: bool = False) -> None:
    """Raise ``InputError`` unless the path is a regular file, or a folder if ``folder`` is set."""
    if stat.S_ISLNK(state.st_mode):
        raise link(path)
    got_kind = kind(state.st_mode)
    if got_kind not in ("", "a folder"):
        raise _error(path, got_kind, hint="replace it with a regular file")
    if bool(got_kind) != folder:
        expected, got = ("folder", "file") if folder else ("file", "folder")
        raise InputError(Problem(f"expected a {expected}, got a {got}", display(path)))


def link(path: Path) -> InputError:
    """Return the error for a symbolic link in a recipe folder."""
    why = "a link may lead out of the recipe folder"
    return _error(path, "a symbolic link", why=why, hint="copy its target in its place")


def _error(path: Path, what: str, *, why: str = "", hint: str = "") -> InputError:
    return InputError(Problem(f"cannot read {what}", display(path), why, hint))
