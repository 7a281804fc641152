"""Read packages of conda: their names, the versions that are meant, and what pip calls them.

``name=1.2`` means 1.2.*, ``name==1.2`` and ``name=1.2=build`` mean 1.2, and so does ``name 1.2``
(conda/models/match_spec.py).
"""

import functools
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml

_SPEC = re.compile(r"(?:([\w./-]+)::)?([A-Za-z0-9_][\w.-]*+)\s*+([^\[\]]*)")
_RANGE = re.compile(r"(?:[<>!~]=?|==)[\w.*+!]+(?:\s*,\s*(?:[<>!~]=?|==)[\w.*+!]+)*")
_PLACE = re.compile(r".*/([\w.-]+)(?:/label/[\w.-]+)?/(?:noarch|linux-\w+)/[^/]+")
"""The URL of a package, below the name of its channel."""
_FILE = re.compile(r"(.+)-([^-]+)-([^-]+)\.(?:conda|tar\.bz2)")
_NUMBER = r"[0-9][\w.!+]*?"
EXPLICIT = "@EXPLICIT"
"""The line of a file above URLs of packages."""


class CondaPackage(NamedTuple):
    """Hold a package of conda."""

    name: str
    version: str = ""
    """The versions that are meant, as pip writes them; empty for any."""
    build: str = ""
    channel: str = ""
    """The channel that has it; empty if nothing says which."""

    def is_python(self) -> bool:
        """Return whether its build says that it is a package of Python."""
        return bool(re.match(r"py[\dh_]", self.build))


def read_package(text: str) -> CondaPackage | None:
    """Return the package that a word or a line of conda names; None if it cannot be read."""
    bare = text.strip()
    if "://" in bare:
        address = bare.partition("#")[0]
        match, place = _FILE.fullmatch(PurePosixPath(address).name), _PLACE.fullmatch(address)
        channel = place[1] if place else address
        return CondaPackage(match[1].lower(), f"=={match[2]}", match[3], channel) if match else None
    parts = _SPEC.fullmatch(bare)
    if not parts:
        return None
    meant = _meant(parts[3].strip())
    channel = (parts[1] or "").partition("/")[0]
    return None if meant is None else CondaPackage(parts[2].lower(), *meant, channel)


def _meant(text: str) -> tuple[str, str] | None:
    """Return the versions of pip that conda means, and the build; None if pip has no such form."""
    if text in ("", "*", "=*"):
        return "", ""
    if _RANGE.fullmatch(text):
        return text.replace(" ", ""), ""
    if limited := re.fullmatch(rf"({_RANGE.pattern})[ =]+([A-Za-z*_]\S*)", text):
        return limited[1].replace(" ", ""), limited[2]
    match = re.fullmatch(
        rf"(?P<equals>=*)\s*(?P<number>{_NUMBER}|\*)(?P<any>\.?\*)?(?:[ =]+(?P<build>\S+))?", text
    )
    if not match:
        return None
    build = match["build"] or ""
    if match["number"] == "*":
        return "", build
    is_open = bool(match["any"]) or (match["equals"] == "=" and not build)
    return f"=={match['number']}{'.*' if is_open else ''}", build


@functools.cache
def _table() -> Mapping[str, Any]:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    rows: Mapping[str, Any] = yaml.safe_load(text)
    return rows


def pypi_name(package: CondaPackage) -> str:
    """Return what PyPI calls a package; empty if that is not known."""
    table = _table()
    if other := table["to_python"].get(package.name):
        return str(other)
    plain = package.name.replace("_", "-")
    by_pip = package.build.startswith(("pypi", "<pip>"))  # As conda list names what pip installed.
    is_public = package.channel in ("", *table["channels"])
    by_build = by_pip or (is_public and package.is_python())
    return plain if by_build or plain in table["same"] else ""


def debian_name(package: CondaPackage) -> str:
    """Return what Debian calls a package; empty if that is not known."""
    return str(_table()["to_debian"].get(package.name, ""))


def is_below_python(package: CondaPackage) -> bool:
    """Return whether each image has a package's content: libraries of the base, and pip."""
    return any(fnmatchcase(package.name, each) for each in _table()["below_python"])


def is_for_mpi(package: CondaPackage) -> bool:
    """Return whether a package is built with MPI, unlike all packages of PyPI and Debian."""
    return "mpi" in package.build and "nompi" not in package.build


def reason_against(package: CondaPackage) -> str:
    """Return why PyPI does not have a package's content; empty if it may have it."""
    if is_for_mpi(package):
        return "PyPI has no build of it for MPI; write a layer that compiles it"
    rows = (row for row in _table()["not_in_pypi"] if package.name in row["names"])
    return next((str(row["refuse"]) for row in rows), "")
