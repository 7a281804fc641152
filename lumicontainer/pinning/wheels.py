"""Describe wheels, and the Python and glibc of the image that installs them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from packaging.markers import default_environment
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from lumicontainer.core.model.requirements import marker_values
from lumicontainer.core.model.wheel_names import OLD_GLIBC, normal
from lumicontainer.host.uv import write_stand_in
from lumicontainer.packages.tags import tags_for
from lumicontainer.packages.uv_messages import missing_extras

_UV_GLIBC = (17, 28, *range(31, 41))
"""The minor versions of glibc 2 that uv has a platform for (uv 0.13)."""


class Target(NamedTuple):
    """Hold the Python and the glibc of an image, such as 3.11 and 2.36."""

    python: str
    glibc: str = ""

    def platforms(self) -> list[str]:
        """Return the platform tags that the image supports, the best first (PEP 600)."""
        newest = self._glibc()
        tags = [f"manylinux_2_{number}_x86_64" for number in range(newest[1], 4, -1)]
        old = {name: glibc for name, glibc in OLD_GLIBC.items() if glibc <= newest}
        tags += [f"{name}_x86_64" for name in sorted(old, key=OLD_GLIBC.__getitem__, reverse=True)]
        return [*tags, "linux_x86_64"]

    def uv_platform(self) -> str:
        """Return the newest platform of uv that the image supports."""
        minor = max((each for each in _UV_GLIBC if each <= self._glibc()[1]), default=17)
        return f"x86_64-manylinux_2_{minor}"

    def tags(self) -> list[Tag]:
        """Return the tags of wheels that the image supports, the best first."""
        return tags_for(self.python, self.platforms())

    def environment(self) -> dict[str, str]:
        """Return the values of markers in the image, with the kernel of this host."""
        host = {name: str(value) for name, value in default_environment().items()}
        return {**host, **marker_values(self.python)}

    def _glibc(self) -> tuple[int, int]:
        match = re.match(r"([0-9]+)\.([0-9]+)", self.glibc)
        return (int(match[1]), int(match[2])) if match else (2, 17)


class Wheel(NamedTuple):
    """Hold one wheel to install."""

    name: str
    version: str
    sha256: str
    """Empty if the index has no sha256 of it."""
    url: str
    needs: tuple[str, ...] = ()
    """Its requirements, with their markers, where pip found it."""
    built_with: tuple["Wheel", ...] = ()
    """The packages that build it, if it is a source that needs some."""

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]

    @property
    def tags(self) -> frozenset[Tag]:
        """Return the tags in the name of its file; empty if that is not a wheel."""
        try:
            return parse_wheel_filename(self.file)[3]
        except ValueError:
            return frozenset()

    @property
    def line(self) -> str:
        """Return it as a line of pip's requirements."""
        return f"{normal(self.name)}=={self.version} --hash=sha256:{self.sha256}"


def is_of(wheel: Wheel, index: str) -> bool:
    """Check that a wheel comes from an index, which may serve its files from another host."""
    hosts = [(urlsplit(url).hostname or "").split(".")[-2:] for url in (wheel.url, index)]
    return bool(index) and hosts[0] == hosts[1]


Resolve: TypeAlias = "Callable[[Query], tuple[list[Wheel], str]]"
"""Returns the wheels of a query, and what the program printed that chose them."""


def with_extras(query: "Query", resolve: Resolve) -> list[Wheel]:
    """Return the wheels of a query, also those that extras of the image's packages need.

    A stand-in has no extras. If one is requested, the real package of the same version is looked up
    instead, and left out of the answer.
    """
    wheels, printed = resolve(query)
    extended = {normal(each.package) for each in missing_extras(printed)}
    names = {name for name in query.present if normal(name) in extended}
    if not names:
        return wheels
    present = {name: v for name, v in query.present.items() if name not in names}
    same = {**query.same, **{name: query.present[name] for name in names}}
    more = with_extras(replace(query, present=present, same=same), resolve)
    return [each for each in more if normal(each.name) not in extended]


@dataclass(frozen=True)
class Query:
    """Hold requirements that are installed together in an image."""

    requirements: Sequence[str]
    present: Mapping[str, str] = field(default_factory=dict)
    """The versions, by name, of the packages that the image has."""
    same: Mapping[str, str] = field(default_factory=dict)
    """The versions of packages that must be used if they are needed."""
    index: str = ""
    """The URL of an index that is searched besides the configured ones."""

    def write_constraints(self, folder: Path) -> Path:
        """Write stand-ins for the packages of the image; return the file of constraints."""
        lines = [write_stand_in(folder, *each) for each in sorted(self.present.items())]
        lines += [f"{name}=={version}" for name, version in sorted(self.same.items())]
        path = folder / "constraints.txt"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path
