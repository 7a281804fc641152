"""Compare installed files with the wheels that they come from, whose hashes are known.

A file is as its wheel lists it (RECORD), or as the wheel holds it: some lists are wrong. Files that
no wheel has are those that an installer makes: programs of entry points, its notes, and bytecode.
"""

import base64
import configparser
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from packaging.version import InvalidVersion, Version

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Problem, StepError
from lumicontainer.system.files import foreign
from lumicontainer.system.files.wheels import FAULTS, open_wheel

_NOTES = frozenset({"INSTALLER", "RECORD", "REQUESTED"})
_READ_BY_PYTHON = ("METADATA", "top_level.txt")
"""Importlib.metadata, and so pip in the image, fails for every package if one is not UTF-8."""
_METADATA = ("dist-info", "egg-info")
"""Importlib.metadata ignores the case of these endings."""
_LOCK, _TIMES = ".lock", "uv_cache.json"
"""Files of uv that are of no use afterwards; the second one holds times of files (uv 0.13)."""
_DATA = re.compile(r"[^/]+\.data/(purelib|platlib|data|scripts|headers)/(.+)")
_BYTECODE = re.compile(r"(.*)__pycache__/([^/]+)\.cpython-\d+(?:\.opt-\d)?\.pyc")
_STARTED = re.compile(r"bin/(?:python[\d.]*|sh|bash|dash|env|lumi-[^/]*|(?P<pip>pip[\d.]*))")
"""Programs of an image that others start by name; the folder of an extension comes first."""
_LARGEST_NOTE = 64 << 20
"""The largest list or metadata of a package, in bytes."""


class InstalledWheel:
    """Hold the files that a wheel installs, by their paths in the folder of packages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, str] = {}
        """The path in the wheel of each installed file."""
        self.digests: dict[str, str] = {}
        """The recorded sha256 of each path in the wheel."""
        self.programs: frozenset[str] = frozenset()
        """The paths of the programs that its entry points and scripts become."""

    def read(self) -> "InstalledWheel":
        """Read the lists of the wheel; raise ``StepError`` if they cannot be read."""
        with open_wheel(self.path) as archive:
            self._read(archive)
        return self

    def _read(self, archive: zipfile.ZipFile) -> None:
        names = [each for each in archive.namelist() if not each.endswith("/")]
        self.files = {_installed(each): each for each in names}
        self._require_own_metadata()
        programs = {path for path in self.files if path.startswith("bin/")}
        for name in names:
            folder, _, file = name.rpartition("/")
            if folder.count("/") or not folder.endswith(".dist-info"):
                continue
            if file == "RECORD":
                self.digests = dict(_digests(_text(archive, name)))
            elif file in _READ_BY_PYTHON:
                _text(archive, name)
            elif file == "entry_points.txt":
                programs.update(_programs(_text(archive, name)))
        self.programs = frozenset(programs)
        self._require_own_programs()

    def _require_own_programs(self) -> None:
        """Raise ``ValueError`` for a program that would replace one by which images start."""
        for path in sorted(self.programs):
            match = _STARTED.fullmatch(path)
            if match and not (match["pip"] and self._package == "pip"):
                raise ValueError(f"its program {path!a} would replace the image's")

    @property
    def _package(self) -> str:
        return normal(self.path.name.partition("-")[0])

    def _require_own_metadata(self) -> None:
        """Raise ``ValueError`` for files by which Python would list another package or version."""
        for folder in sorted({path.partition("/")[0] for path in self.files}):
            name, _, ending = folder.rpartition(".")
            if ending.lower() in _METADATA and not self._is_own(name, ending):
                raise ValueError(f"it has the metadata of another package: {folder!a}")

    def _is_own(self, name: str, ending: str) -> bool:
        package, _, version = name.partition("-")
        own = self.path.name.split("-")[1]
        with suppress(InvalidVersion):
            same = normal(package) == self._package and Version(version) == Version(own)
            return same and ending == "dist-info"
        return False

    def holds(self, path: str, sha256: str) -> bool:
        """Return whether an installed file is as the wheel lists or holds it."""
        name = self.files[path]
        return self.digests.get(name) == sha256 or self._digest(name) == sha256

    def _digest(self, name: str) -> str:
        with suppress(*FAULTS), zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        return ""


def require_same(folder: Path, files: foreign.Sizes, wheels: Iterable[Path]) -> None:
    """Raise ``StepError`` if the installed ``files`` of a folder differ from the wheels' files."""
    owners: dict[str, list[InstalledWheel]] = {}
    read = [InstalledWheel(each).read() for each in wheels]
    programs = {path for each in read for path in each.programs}
    for each in read:
        for path in each.files:
            owners.setdefault(path, []).append(each)

    def fault(path: str) -> str:
        if files[path] > _LARGEST_NOTE and ".dist-info/" in path:
            return f"{path!a} is larger than {_LARGEST_NOTE} bytes"
        if path in programs or _is_of_installer(path, owners):
            return ""
        if path not in owners:
            return f"{path!a} is of no package"
        with foreign.open_below(folder, path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        same = any(each.holds(path, digest) for each in owners[path])
        return "" if same else f"{path!a} differs from {owners[path][0].path.name}"

    with ThreadPoolExecutor() as pool:
        faults = [each for each in pool.map(fault, files) if each]
    missing = (path for path in owners if path not in files and path not in programs)
    faults += [f"{path!a} of {owners[path][0].path.name} is missing" for path in missing]
    if faults:
        what, why = "the installed files differ from the packages' files", "\n".join(faults[:5])
        raise StepError(
            Problem(what, why=why, hint="choose another version of it, or leave it out")
        )


def remove_notes_of_uv(folder: Path, files: foreign.Sizes) -> None:
    """Remove what only uv reads, also from the lists of packages; the files were taken."""
    for path in files:
        place, _, name = path.rpartition("/")
        if name == _TIMES and place.endswith(".dist-info"):
            record = f"{place}/RECORD"
            lines = foreign.read_below(folder, record, _LARGEST_NOTE).splitlines(keepends=True)
            (folder / path).unlink()
            (folder / record).unlink()  # It may be a hard link of another file.
            kept = [each for each in lines if not each.startswith(f"{path},".encode())]
            (folder / record).write_bytes(b"".join(kept))
    (folder / _LOCK).unlink(missing_ok=True)


def _is_of_installer(path: str, owners: Mapping[str, object]) -> bool:
    """Return whether an installer made a file, for a package or a module that is there."""
    folder, _, name = path.rpartition("/")
    if path == _LOCK:
        return True
    if name in {*_NOTES, _TIMES} and folder.endswith(".dist-info"):
        return f"{folder}/METADATA" in owners
    source = _BYTECODE.fullmatch(path)
    return source is not None and f"{source[1]}{source[2]}.py" in owners


def _installed(name: str) -> str:
    """Return where a path in a wheel is installed (PEP 427, in a folder of ``--target``)."""
    data = _DATA.fullmatch(name)
    if data is None:
        return name
    package = name.partition("-")[0]
    prefix = {"scripts": "bin/", "headers": f"include/{package}/"}.get(data[1], "")
    return f"{prefix}{data[2]}"


def _text(archive: zipfile.ZipFile, name: str) -> str:
    with archive.open(name) as file:
        content = file.read(_LARGEST_NOTE + 1)
    if len(content) > _LARGEST_NOTE:
        raise ValueError(f"{name!a} is larger than {_LARGEST_NOTE} bytes")
    return content.decode()


def _digests(record: str) -> Iterator[tuple[str, str]]:
    for row in csv.reader(io.StringIO(record, newline="")):
        match row:
            case [name, digest, *_] if digest.startswith("sha256="):
                text = digest.removeprefix("sha256=")
                yield name, base64.urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}").hex()


def _programs(text: str) -> Iterator[str]:
    """Yield the paths of the programs that entry points become."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    for section in ("console_scripts", "gui_scripts"):
        if parser.has_section(section):
            yield from (f"bin/{name.strip()}" for name in parser[section])
