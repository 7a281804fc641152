"""Copy files of the imported folder into the layer, and write the lines that install them."""

import contextlib
import shlex
from pathlib import Path, PurePosixPath

from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.model.requirements import is_file_of
from lumicontainer.errors import InputError, Problems
from lumicontainer.importing.draft import CARRIED, NOT_NEEDED, Draft, Origin, hazard
from lumicontainer.importing.requirements import inner_name
from lumicontainer.system.files.recipe_folder import files_below, read_bytes
from lumicontainer.system.units import count

FOLDER = "files"
"""The folder of the layer that holds them."""
_IGNORE = ".dockerignore"


class Copies:
    """Remember what was copied where, for commands that read it."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._places: dict[str, str] = {}

    def find(self, path: str) -> str:
        """Return the name in the folder of what a path of the image is; empty if not known."""
        wanted = PurePosixPath(path)
        for place, name in reversed(self._places.items()):
            # The place may be a folder that the file was copied into.
            if wanted in (PurePosixPath(place), PurePosixPath(place) / PurePosixPath(name).name):
                return name
            if wanted.is_relative_to(place):
                inner = f"{name}/{wanted.relative_to(place)}"
                return inner if (self.draft.folder / inner).is_file() else ""
        return ""

    def add(self, origin: Origin, text: str, source: str, target: str) -> None:
        """Add the copy of a file or a folder to an absolute path of the image."""
        name = inner_name(source.lstrip("/") if source.startswith("/") else source)
        if not name and source.strip("./"):
            self.draft.refuse(origin, text, "it leads out of the folder of what is imported")
            return
        if why := hazard(f"{name}\n{target}"):
            self.draft.refuse(origin, text, why)
            return
        if not any(letter in source for letter in "*?["):
            self._add_one(origin, text, name, target)
            return
        found: list[Path] = []
        # It may not be a pattern that can be read.
        with contextlib.suppress(ValueError):
            found = sorted(self.draft.folder.glob(name))
        for path in found:
            one = path.relative_to(self.draft.folder).as_posix()
            self._add_one(origin, f"COPY {one} {target}", one, f"{target.rstrip('/')}/")
        if not found:
            self.draft.refuse(origin, text, "no file has such a name")

    def _add_one(self, origin: Origin, text: str, name: str, target: str) -> None:
        path = self.draft.folder / name
        if path.is_dir() and not path.is_symlink():
            self._add_folder(origin, text, name, target.rstrip("/") or "/")
        else:
            place = f"{target}{path.name}" if target.endswith("/") else target
            self._add_file(origin, text, name, place)

    def _add_file(self, origin: Origin, text: str, name: str, target: str) -> None:
        draft = self.draft
        try:
            content = read_bytes(draft.folder, name)
        except InputError as error:
            draft.refuse(origin, text, _reason(error))
            return
        self._places[target] = name
        file = LayerFile(name, 0o755 if _is_program(draft, name) else 0o644, content)
        if is_file_of(file) or _is_environment(name):
            draft.note(origin, text, NOT_NEEDED, "it is read for packages, not installed")
            return
        self._keep(file)
        words = ["install", "-D", "-m", f"{file.mode:o}", f"{FOLDER}/{name}", target]
        draft.script.append(f"{shlex.join(words)}\n")
        draft.note(origin, text, CARRIED)

    def _add_folder(self, origin: Origin, text: str, name: str, target: str) -> None:
        draft, problems = self.draft, Problems()
        self._places[target] = name
        if (draft.folder / _IGNORE).exists():
            why = f"{_IGNORE} is not read: copy by name what the image needs, or bind the folder"
            draft.refuse(origin, text, why)
            return
        found = [
            each for each in files_below(draft.folder, name, problems) if not _is_git(each.name)
        ]
        if problems.found:
            draft.refuse(origin, text, _reason(InputError(*problems.found)))
            return
        files = [
            file
            for each in found
            if not is_file_of(file := LayerFile(f"{name}/{each.name}".lstrip("/"), *each[1:]))
        ]
        for file in files:
            self._keep(file)
        quoted, inner = shlex.quote(target), shlex.quote(f"{FOLDER}/{name}".rstrip("/") + "/.")
        if files:
            draft.script.append(f"mkdir -p {quoted}\ncp -r {inner} {quoted}\n")
        draft.note(
            origin, text, CARRIED, f"{count(len(files), 'file')}; bind your code instead to edit it"
        )

    def _keep(self, file: LayerFile) -> None:
        self.draft.files[f"{FOLDER}/{file.name}"] = file

    def add_text(self, origin: Origin, text: str, content: str, target: str) -> None:
        """Add a file whose content stands in the imported file."""
        name = f"line-{origin.number}-{PurePosixPath(target).name}"
        self.draft.files[f"{FOLDER}/{name}"] = LayerFile(name, 0o644, content.encode())
        words = ["install", "-D", "-m", "644", f"{FOLDER}/{name}", target]
        if why := hazard(shlex.join(words)):
            self.draft.refuse(origin, text, why)
            return
        self.draft.script.append(f"{shlex.join(words)}\n")
        self.draft.note(origin, text, CARRIED)


def _reason(error: InputError) -> str:
    problem = error.problems[0]
    return f"{problem.what}: {problem.why or problem.where}"


def _is_program(draft: Draft, name: str) -> bool:
    return bool((draft.folder / name).stat().st_mode & 0o100)


def _is_environment(name: str) -> bool:
    return PurePosixPath(name).name in ("environment.yml", "environment.yaml")


def _is_git(name: str) -> bool:
    return name == ".git" or name.startswith(".git/")
