"""Copy files of the imported folder into the layer, and write the lines that install them."""

import contextlib
import itertools
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from lumicontainer.core.apptainer_syntax import fits_a_line, hazard
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.model.requirements import is_file_of
from lumicontainer.errors import InputError, Problems
from lumicontainer.importing.context import ignoring
from lumicontainer.importing.draft import CARRIED, MAX_PATH, NOT_NEEDED, Draft, FileLine
from lumicontainer.importing.environment import READABLE
from lumicontainer.importing.lists.requirements import inner_name
from lumicontainer.importing.lists.settings import NAMES, add_settings, are_settings
from lumicontainer.importing.shell.losses import Losses
from lumicontainer.system.files.recipe_folder import (
    MAX_DEPTH,
    MAX_FILES,
    MAX_FOLDER_BYTES,
    NAME_INPUTS,
    FolderFile,
    files_below,
    read_bytes,
)
from lumicontainer.system.terminal.masking import holds_secret, is_secret_file, shell_secrets
from lumicontainer.system.units import count

FOLDER = "files"
"""The folder of the layer that holds them."""
TEXTS = "texts"
"""The folder of the layer for files whose content stands in the imported file."""
_TOO_MANY = (
    f"more than {MAX_FILES} files or {MAX_FOLDER_BYTES >> 20} MiB are copied; "
    "bind your code and data instead"
)
_ODD_NAME = "its name is not plain text"

_OPTIONS = ("from", "chmod", "chown", "link", "checksum", "keep-git-dir")


def why_not_copied(name: str, options: Mapping[str, str], rest: str) -> str:
    """Return why a copy cannot be carried over; empty if its options and words do not say so."""
    if not re.fullmatch("[0-7]{1,4}", mode := options.get("chmod", "0")):
        return f"the mode '{mode}' is not of octal digits"
    if unknown := [option for option in options if option not in _OPTIONS]:
        return f"the option '--{unknown[0]}' of {name} has no counterpart"
    return "it has a variable without a known value" if "$" in rest else ""


def is_pattern(name: str) -> bool:
    """Return whether a name stands for several files."""
    return any(letter in name for letter in "*?[")


class Copies:
    """Remember what was copied where, for commands that read it."""

    def __init__(self, draft: Draft, losses: Losses) -> None:
        self.draft = draft
        self.losses = losses
        self._places: dict[PurePosixPath, tuple[int, str]] = {}
        """By the place in the image: which copy it was, and what was copied."""
        self._numbers = itertools.count()

    def _refuse(self, line: FileLine, target: str, why: str) -> None:
        line.refuse(why)
        self.losses.lose(target, "/")

    def find(self, path: str) -> str:
        """Return the name of an image's path in the context folder; empty if it is not known."""
        target = PurePosixPath(path)
        if len(path) > MAX_PATH:
            return ""
        places = (place for place in (target, *target.parents) if place in self._places)
        place = max(places, key=lambda each: self._places[each][0], default=None)
        if place is None:
            return ""
        name = self._places[place][1]
        # The place may be a folder that the file was copied into.
        if target in (place, place / PurePosixPath(name).name):
            return name
        inner = f"{name}/{target.relative_to(place)}".lstrip("/")
        return inner if self.draft.has_file(inner) else ""

    def _remember(self, target: str, name: str) -> None:
        self._places[PurePosixPath(target)] = (next(self._numbers), name)

    def mount(self, line: FileLine, source: str, target: str) -> None:
        """Note that one command has a file or a folder at a path, and the image has not."""
        place, name = target.rstrip("/"), inner_name(source.lstrip("/"))
        self._remember(place, name)
        self.losses.lose(place, "/")
        files = {f"{name}/{each}".lstrip("/"): each for each in NAMES}
        files |= {name: place} if are_settings(place) else {}
        for file, path in files.items():
            if self.draft.has_file(file):
                self.add_settings(line, file, path)

    def add_settings(self, line: FileLine, name: str, path: str) -> bool:
        """Add the indexes of a copied file that pip or uv reads at a path; return if it has any."""
        try:
            content = read_bytes(self.draft.folder, name)
        except InputError as error:
            line.refuse(_reason(error))
            return True
        return add_settings(line, path, content)

    def add(self, line: FileLine, source: str, target: str, mode: int = 0) -> None:
        """Add the copy of a file or a folder to an absolute path of the image.

        With the mode 0, files keep their own.
        """
        name = inner_name(source.lstrip("/") if source.startswith("/") else source)
        if not name and source.strip("./"):
            why = "it leads out of the build context"
            self._refuse(line, _place(target, source), why)
            return
        if max(len(source), len(target)) > MAX_PATH:
            line.refuse(f"no path has more than {MAX_PATH} characters")
            return
        if why := hazard(f"{name}\n{target}"):
            self._refuse(line, _place(target, source), why)
            return
        if not f"{name}{target}".isprintable():
            self._refuse(line, _place(target, source), _ODD_NAME)
            return
        if not is_pattern(source):
            self._add_one(line, name, target, mode)
            return
        matches = self.matching(name)
        for one in matches:
            part = line.part(f"COPY {one} {target}")
            self._add_one(part, one, f"{target.rstrip('/')}/", mode)
        if not matches:
            self._refuse(line, target, "no file has such a name")

    def matching(self, pattern: str) -> list[str]:
        """Return the names in the folder that a pattern matches."""
        matches: list[Path] = []
        # It may not be a pattern that can be read. Two stars are one to COPY.
        with contextlib.suppress(ValueError):
            plain = re.sub(r"\*+", "*", pattern)
            few = plain.count("/") <= MAX_DEPTH
            matches = sorted(self.draft.folder.glob(plain)) if few else []
        return [path.relative_to(self.draft.folder).as_posix() for path in matches]

    def _add_one(self, line: FileLine, name: str, target: str, mode: int) -> None:
        if not fits_a_line(name):
            self._refuse(line, _place(target, name), _ODD_NAME)
            return
        if self.draft.has_folder(name):
            self._add_folder(line, name, target.rstrip("/") or "/", mode)
        else:
            self._add_file(line, name, _place(target, name), mode)

    def _add_file(self, line: FileLine, name: str, target: str, mode: int) -> None:
        path = self.draft.folder / name
        if self._is_full():
            self._refuse(line, target, _TOO_MANY)
            return
        try:
            content = read_bytes(self.draft.folder, name, large=NAME_INPUTS)
        except InputError as error:
            self._refuse(line, target, _reason(error))
            return
        self._remember(target, name)
        if holds_secret(name, content) or is_secret_file(target):
            self._refuse(line, target, READABLE)
            return
        file = LayerFile(name, 0o755 if path.stat().st_mode & 0o100 else 0o644, content)
        self._count([file])
        if is_file_of(file) or path.name in ("environment.yml", "environment.yaml"):
            line.note(NOT_NEEDED, "it is read for packages, not installed")
            self.losses.lose_list(target, "/")
        else:
            self._install(line, file, target, mode)

    def _add_folder(self, line: FileLine, name: str, target: str, mode: int) -> None:
        draft = self.draft
        self._remember(target, name)
        files, why = self._read_folder(line, name)
        if why:
            self._refuse(line, target, why)
            return
        self._lose_lists(target, name, files)
        for file in [each for each in files if holds_secret(each.name, each.content)]:
            inner = file.name.removeprefix(name).lstrip("/")
            self._refuse(line.part(f"COPY {file.name} {target}/"), f"{target}/{inner}", READABLE)
            files.remove(file)
        files = [file for file in files if not self._are_settings(line, file, file.name)]
        files = [file for file in files if not is_file_of(file)]
        draft.files |= {f"{FOLDER}/{file.name}": file for file in files}
        quoted, inner = shlex.quote(target), shlex.quote(f"{FOLDER}/{name}".rstrip("/") + "/.")
        if files:
            inside = [file.name.removeprefix(name).lstrip("/") for file in files]
            places = [f"{target.rstrip('/')}/{each}" for each in inside]
            for each in places:
                self.losses.restore(each)
            changed = f"{shlex.join(['chmod', f'{mode:o}', *places])}\n" if mode else ""
            draft.script.append(f"mkdir -p {quoted}\ncp -r {inner} {quoted}\n{changed}")
        line.note(CARRIED, f"{count(len(files), 'file')}; bind your code instead to edit it")

    def _read_folder(self, line: FileLine, name: str) -> tuple[list[LayerFile], str]:
        """Return the files of a folder, and why they cannot be copied."""
        problems, entries = Problems(), list[FolderFile]()
        if self._is_full():
            return [], _TOO_MANY
        try:
            is_ignored = ignoring(self.draft.folder, line.file)
        except InputError as error:
            problems.noted += error.problems
        else:
            skip = partial(_is_skipped, is_ignored, name)
            entries = list(files_below(self.draft.folder, name, problems, skip))
        files = [LayerFile(f"{name}/{each.name}".lstrip("/"), *each[1:]) for each in entries]
        self._count(files)
        if problems.noted:
            return [], _reason(InputError(*problems.noted))
        odd = next((each.name for each in files if not fits_a_line(each.name)), "")
        return files, f"the name of a file is not plain text: {odd!a}" if odd else ""

    def _count(self, files: Sequence[LayerFile]) -> None:
        self.draft.counts.files += len(files)
        self.draft.counts.bytes += sum(len(each.content) for each in files)

    def _is_full(self) -> bool:
        counts = self.draft.counts
        return counts.files >= MAX_FILES or counts.bytes >= MAX_FOLDER_BYTES

    def _lose_lists(self, target: str, name: str, files: Sequence[LayerFile]) -> None:
        for file in filter(is_file_of, files):
            self.losses.lose_list(file.name.removeprefix(name).lstrip("/"), target)

    def add_text(self, line: FileLine, content: str, target: str, mode: int) -> None:
        """Add a file whose content stands in the imported file."""
        if is_secret_file(target) or next(shell_secrets(content), ""):
            self._refuse(line, target, READABLE)
            return
        name = f"line-{line.number}-{PurePosixPath(target).name}"
        self._install(line, LayerFile(name, 0o644, content.encode()), target, mode, TEXTS)

    def _are_settings(self, line: FileLine, file: LayerFile, target: str) -> bool:
        """Add the indexes that a file chooses for pip or uv; return whether it chooses any."""
        return are_settings(target) and add_settings(line, target, file.content)

    def _install(
        self, line: FileLine, file: LayerFile, target: str, mode: int, folder: str = FOLDER
    ) -> None:
        if self._are_settings(line, file, target):
            self.losses.lose(target, "/")
            return
        own = f"{folder}/{file.name}"
        command = shlex.join(["install", "-D", "-m", f"{mode or file.mode:o}", own, target])
        if why := hazard(command):
            self._refuse(line, target, why)
            return
        self.losses.restore(target)
        self.draft.files[own] = file
        self.draft.script.append(f"{command}\n")
        line.note(CARRIED)


def _place(target: str, source: str) -> str:
    """Return the path of a copied file: a target that ends with a slash is a folder."""
    return f"{target}{PurePosixPath(source).name}" if target.endswith("/") else target


def _is_skipped(is_ignored: Callable[[str], bool], folder: str, path: str) -> bool:
    return is_ignored(posixpath.join(folder, path))


def _reason(error: InputError) -> str:
    problem = error.problems[0]
    return f"{problem.what}: {problem.why or problem.where}"
