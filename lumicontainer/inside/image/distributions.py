"""What Python packages are in the image, with the files of which each consists."""

from __future__ import annotations

import os
from importlib.metadata import distributions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.metadata import Distribution

UNSAID = -1


class Package:
    """Hold a Python package that is installed, with the length of each of its files."""

    __slots__ = ("_distribution", "folder", "name", "version")

    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution
        self.name: str = distribution.metadata["Name"]
        self.version: str = distribution.version
        self.folder = str(distribution.locate_file(""))

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield each file's path and the length that was recorded, UNSAID where none was."""
        for line in (self._distribution.read_text("RECORD") or "").splitlines():
            name, _, size = line.rsplit(",", 2)
            path = os.path.normpath(os.path.join(self.folder, name.strip('"')))
            yield path, int(size) if size else UNSAID

    def text(self, name: str) -> str:
        """Return what a file beside its metadata says, nothing where it is not there."""
        return self._distribution.read_text(name) or ""

    def modules(self) -> Sequence[str]:
        """Return the names by which programs import it."""
        told = [line for line in self.text("top_level.txt").split() if line.isidentifier()]
        found = {_module(path, self.folder) for path, _ in self.files()}
        return sorted({*told, *found} - {""})


def _module(path: str, folder: str) -> str:
    """Return the module that a file belongs to; nothing where it belongs to none."""
    head, _, rest = os.path.relpath(path, folder).partition("/")
    name = head.partition(".")[0]
    if not name.isidentifier() or name.startswith("_"):
        return ""
    if rest:
        return name if rest.startswith("__init__.") and "." not in head else ""
    return name if head.endswith((".py", ".so")) else ""


def packages() -> list[Package]:
    """Return the packages that a program sees, the first of each name as it would import it."""
    found: dict[str, Package] = {}
    for distribution in distributions():
        # A folder that only looks like a package's has no name.
        if distribution.metadata["Name"]:
            package = Package(distribution)
            found.setdefault(plain_name(package.name), package)
    return list(found.values())


def plain_name(name: str) -> str:
    """Return a package's name in the one form that pip compares (PEP 503)."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))
