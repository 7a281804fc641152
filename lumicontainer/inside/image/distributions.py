"""List the Python packages of the image and their files."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.metadata import Distribution, distributions

from .names import plain_name

UNSAID = -1
_COLUMNS = 3
"""A path, its hash and its size (PEP 376)."""
_SIZE = re.compile(r"[0-9]{1,18}")


class Package:
    """An installed Python package."""

    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution
        self.name: str = distribution.metadata["Name"]
        self.version: str = distribution.version
        self.folder = os.path.normpath(str(distribution.locate_file("")))

    @cached_property
    def files(self) -> Sequence[tuple[str, int]]:
        """Return each file's path and its recorded length, UNSAID without one."""
        return list(self._files())

    def _files(self) -> Iterator[tuple[str, int]]:
        # What is no row of a list is no file: packages may come from anywhere.
        rows = csv.reader(io.StringIO(self.text("RECORD"), newline=""))
        with suppress(csv.Error):
            for row in rows:
                if len(row) == _COLUMNS and "\0" not in row[0]:
                    path = os.path.normpath(os.path.join(self.folder, row[0]))
                    yield path, int(row[2]) if _SIZE.fullmatch(row[2]) else UNSAID

    def text(self, name: str) -> str:
        """Return a file of its metadata, or "" if it is missing or not UTF-8."""
        with suppress(UnicodeDecodeError):
            return self._distribution.read_text(name) or ""
        return ""

    def requires(self) -> list[str]:
        """Return its requirements, with their markers (PEP 508)."""
        with suppress(UnicodeDecodeError):
            return list(self._distribution.requires or ())
        return []

    def modules(self) -> Sequence[str]:
        """Return the modules that programs import from it."""
        lines = self.text("top_level.txt").split()
        listed = [line for line in lines if line.isidentifier() and not line.startswith("_")]
        installed = {_module(path, self.folder) for path, _ in self.files}
        return sorted({*listed, *installed} - {""})


def _module(path: str, folder: str) -> str:
    if not path.startswith(f"{folder}/"):
        return ""
    head, _, rest = path[len(folder) + 1 :].partition("/")
    name = head.partition(".")[0]
    if not name.isidentifier() or name.startswith("_"):
        return ""
    if rest:
        return name if rest.startswith("__init__.") and "." not in head else ""
    return name if head.endswith((".py", ".so")) else ""


def packages() -> list[Package]:
    """Return the packages that a program sees; of each name the first, which it would import."""
    by_name: dict[str, Package] = {}
    for package in map(_read_package, distributions()):
        if package:
            by_name.setdefault(plain_name(package.name), package)
    return list(by_name.values())


def _read_package(distribution: Distribution) -> Package | None:
    """Return a package; None for a folder that is not one, or whose metadata is not UTF-8."""
    try:
        metadata = distribution.metadata
    except UnicodeDecodeError as error:
        where = os.path.normpath(str(distribution.locate_file("")))
        print(f"warning: a package in {where} is left out: {error}", file=sys.stderr)
        return None
    return Package(distribution) if metadata["Name"] and metadata["Version"] else None
