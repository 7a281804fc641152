"""Read and write locks of packages (PEP 751). ``packaging.pylock`` says what is valid."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from pathlib import PurePath
from typing import Any
from urllib.parse import quote, unquote

from packaging.pylock import Package, Pylock, PylockValidationError

from lumicontainer.errors import Fault
from lumicontainer.packages.toml import TomlError, read_toml

_CHOICE = re.compile(r"""(['"])([^'"]*)\1\s+(not\s+)?in\s+(extras|dependency_groups)""")
"""The conditions in markers that only locks have."""
_PACKAGES = "packages"


class PylockError(ValueError):
    """A text is not a lock, or not one of PEP 751."""


def read_pylock(text: str) -> Pylock:
    """Return a lock; raise ``PylockError`` for another text."""
    try:
        lock = Pylock.from_dict(read_toml(text))
    except (TomlError, PylockValidationError) as error:
        raise PylockError(str(error)) from error
    for package in lock.packages:
        for address in _addresses(package):
            if not unquote(address).isprintable():  # No path has a zero byte.
                raise PylockError(f"the address of {package.name} is invalid: {address!a:.100}")
    return lock


def _addresses(package: Package) -> Iterator[str]:
    """Yield the URLs and paths of a package."""
    for each in (package.sdist, package.archive, package.vcs, *(package.wheels or ())):
        yield from filter(None, (each.url, each.path) if each else ())
    if package.directory:
        yield package.directory.path


def pylock_text(lock: Pylock) -> str:
    """Return a lock as TOML, with a table for each package."""
    data = dict(lock.to_dict())
    packages = data.pop(_PACKAGES)
    parts = ["".join(_lines(data)), *("".join(_lines(each)) for each in packages)]
    return f"\n[[{_PACKAGES}]]\n".join(parts)


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_text(key)} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    match value:
        case str():
            return _text(value, quoted=True)
        case date() | time():
            return value.isoformat()
        case float():
            return str(value)  # TOML has inf and nan, as Python writes them.
        case Mapping():
            rows = (f"{_text(key)} = {_value(each)}" for key, each in value.items())
            return f"{{ {', '.join(rows)} }}"
        case Sequence():
            rows = (f"\n    {_value(each)}," for each in value)
            return f"[{''.join(rows)}\n]"
    return json.dumps(value)


def _text(text: str, *, quoted: bool = False) -> str:
    """Return a key or a text; JSON escapes as TOML does, but for one character."""
    if not quoted and re.fullmatch(r"[\w-]+", text, re.ASCII):
        return text
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def with_hashes(package: Package, allowed: Collection[str]) -> Package:
    """Return a package with only the files that have one of the sha256."""
    wheels = [each for each in package.wheels or () if each.hashes.get("sha256") in allowed]
    source = package.sdist
    if source and source.hashes.get("sha256") not in allowed:
        source = None
    return replace(package, wheels=wheels or None, sdist=source)


def hashes_of(package: Package) -> list[str]:
    """Return the sha256 of the files of a package."""
    files = [package.sdist, package.archive, *(package.wheels or ())]
    return [each.hashes["sha256"] for each in files if each and "sha256" in each.hashes]


def requirement_of(package: Package, groups: Collection[str], folder: PurePath) -> str | Fault:
    """Return a package as a requirement with its marker, or why it has no such form.

    Paths count from the ``folder`` of the lock. No extra is chosen, and ``groups`` are.
    """
    if why := _find_fault(package):
        hint = "take it out, and name its source another way"
        return Fault(f"cannot install '{package.name}' of the lock", why, hint)
    place, marker = _place(package, folder), _marker(package, groups)
    bare = f"{package.name} @ {place}" if place else f"{package.name}=={package.version}"
    # A blank ends a URL.
    return f"{bare}{' ' if place else ''}; {marker}" if marker else bare


def _find_fault(package: Package) -> str:
    source = package.archive or package.directory
    if source and source.subdirectory not in (None, "", "."):
        return "its source is a subdirectory"
    if package.vcs and (package.vcs.type != "git" or not package.vcs.url):
        return "its source is not a repository of git with a URL"
    return "" if package.is_direct or package.version else "the lock has no version of it"


def _place(package: Package, folder: PurePath) -> str:
    """Return where the source of a package is, if no index has it; empty otherwise."""
    if vcs := package.vcs:
        below = f"#subdirectory={quote(vcs.subdirectory)}" if vcs.subdirectory else ""
        return f"git+{vcs.url}@{vcs.commit_id}{below}"
    if package.archive and package.archive.url:
        return package.archive.url
    source = package.archive or package.directory
    return (folder / (source.path or "")).as_uri() if source else ""


def _marker(package: Package, groups: Collection[str]) -> str:
    def decided(match: re.Match[str]) -> str:
        chosen = match[4] == "dependency_groups" and match[2] in groups
        return f"python_version {'<' if chosen == bool(match[3]) else '>='} '0'"

    return _CHOICE.sub(decided, str(package.marker or ""))
