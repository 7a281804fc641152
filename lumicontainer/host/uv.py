"""Find uv, and write what it reads: pip's sources, and stand-ins for packages that are there."""

import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from packaging.utils import canonicalize_name
from packaging.version import Version

from lumicontainer.errors import InputError, Problem
from lumicontainer.system import process

_TRUE = ("1", "true", "yes", "on", "y", "t")
"""The words by which pip switches an option on."""
_LISTS = ("--extra-index-url", "--find-links")
_STRATEGY = {"--index-strategy": "unsafe-best-match"}
STAND_IN = "in.the.image"
"""Marks the version of a stand-in for a package that the image has already."""


def find_uv() -> Path | None:
    """Return the uv of this Python's environment, else that of PATH; None where there is none."""
    own = Path(sys.executable).with_name("uv")
    return own if own.is_file() else process.find("uv")


def allows_indexes(settings: Mapping[str, str]) -> bool:
    """Return whether pip's settings allow indexes at all."""
    return settings.get("no-index", "").lower() not in _TRUE


class Sources:
    """The options of pip's sources. They stand in a file, because URLs may hold passwords."""

    def __init__(self, settings: Mapping[str, str], index: str) -> None:
        links = settings.get("find-links", "").split()
        indexes = [*settings.get("extra-index-url", "").split(), *filter(None, [index])]
        default = settings.get("index-url", "")
        self._no_index = not allows_indexes(settings)
        self._links = [f"--find-links {each}" for each in links]
        self._default = [f"--index-url {default}"] if default else []
        self._extra = [] if self._no_index else indexes

    def together(self) -> list[str]:
        """Return the lines of requirements that name all sources."""
        first = ["--no-index"] if self._no_index else self._default
        return [*first, *(f"--extra-index-url {each}" for each in self._extra), *self._links]

    def settings(self, links: Path) -> str:
        """Return them as uv's own settings, with one more folder of wheels."""
        pairs = [line.partition(" ") for line in [*self.together(), f"--find-links {links}"]]
        lists = {option: [b for a, _, b in pairs if a == option] for option in _LISTS}
        single = {option: value for option, _, value in pairs if option not in _LISTS}
        rows = {**lists, **{name: value or True for name, value in single.items()}, **_STRATEGY}
        return "".join(f"{name[2:]} = {json.dumps(value)}\n" for name, value in rows.items())

    def each(self) -> list[list[str]]:
        """Return the lines that name one source, for each source in the order of pip."""
        links = [["--no-index", *self._links]] if self._links or self._no_index else []
        default = [] if self._no_index else [self._default]
        return [*links, *default, *([f"--index-url {each}"] for each in self._extra)]


def require_package(name: str, version: str) -> tuple[str, str]:
    """Return a name and a version as PEP 503 and PEP 440 write them; raise ``InputError``."""
    try:
        return canonicalize_name(name, validate=True), str(Version(version))
    except ValueError as error:
        shown = f"{name!a:.100} {version!a:.100}"
        what, hint = "invalid name or version of a Python package", "use another image"
        raise InputError(Problem(what, shown, hint=hint)) from error


def write_stand_in(
    folder: Path,
    name: str,
    version: str,
    needs: Sequence[str] = (),
    extras: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    """Write a wheel that stands for a package that is there; return the constraint that takes it.

    No other package has its local version, which meets the same requirements as the public part.
    By default it needs nothing: the image has the needs of the package too. What ``extras`` need
    may not be there.
    """
    name, version = require_package(name, version)
    public, plus, local = version.partition("+")
    marked = f"{public}+{local}{'.' if plus else ''}{STAND_IN}"
    file = name.replace("-", "_")
    notes = f"{file}-{marked}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {marked}\n"
    metadata += "".join(f"Provides-Extra: {each}\n" for each in extras)
    every = dict.fromkeys((*needs, *chain.from_iterable(extras.values())))
    metadata += "".join(f"Requires-Dist: {each}\n" for each in every)
    form = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{file}-{marked}-py3-none-any.whl", "w") as wheel:
        for part, text in (("METADATA", metadata), ("WHEEL", form), ("RECORD", "")):
            wheel.writestr(f"{notes}/{part}", text)
    return f"{name}=={marked}"
