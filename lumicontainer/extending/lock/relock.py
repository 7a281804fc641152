"""Take names and versions alone from the lock of a container in which code of a source ran.

Code that uv builds there can print another lock. Uv looks up the files of these versions in a
container where nothing is built. An image starts both, and can print what it likes, so that the
second lock is compared with the first.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.pylock import Package, PackageDirectory, Pylock
from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Problem, StepError
from lumicontainer.packages.pylock import PylockError, read_pylock


class Pins(NamedTuple):
    """Hold the versions that a resolution chose."""

    lines: tuple[str, ...]
    """One requirement of each package, by which uv finds its files."""
    settings: str
    """Settings of uv by which it needs no metadata of these packages, and so builds none."""
    own: tuple[Package, ...]
    """The user's own code."""
    versions: frozenset[tuple[str, str]]
    """The name and version of each package that has files."""


def read_answer(text: str) -> Pylock:
    """Return the lock that uv printed; raise ``StepError`` for a text that it would not print."""
    try:
        return read_pylock(text)
    except PylockError as error:
        raise _strange(str(error)) from error


def read_pins(lock: Pylock, requested: Iterable[str], code: Sequence[Path]) -> Pins:
    """Return the versions in a lock that uv may not have printed.

    ``requested`` are the user's lines; their URLs count, the lock's do not. Raises
    ``StepError`` if the lock holds anything that uv would not print.
    """
    urls, folders = dict(_urls(requested)), {os.path.realpath(each) for each in code}
    lines, metadata, own, versions = [], [], [], set()
    for package in lock.packages:
        name, version, folder = package.name, package.version, package.directory
        if folder and folder.editable and os.path.realpath(folder.path) in folders:
            source = PackageDirectory(path=folder.path, editable=True)
            own.append(Package(name=name, directory=source))
        elif version is not None:
            lines.append(urls.get(name, f"{name}=={version}"))
            metadata.append(f'[[dependency-metadata]]\nname = "{name}"\nversion = "{version}"')
            versions.add((name, str(version)))
        else:
            raise _strange(f"the source of {name} has no version")
    settings = "".join(f"{each}\n" for each in metadata)
    return Pins(tuple(lines), settings, tuple(own), frozenset(versions))


def require_pinned_files(lock: Pylock, pins: Pins, folders: Sequence[Path]) -> None:
    """Raise ``StepError`` unless a lock has the files of pinned packages, and nothing else.

    Files of this host must be below ``folders``: other folders are not the image's to name.
    """
    allowed = [os.path.realpath(each) for each in folders]
    for package in lock.packages:
        if (package.name, str(package.version)) not in pins.versions:
            raise _strange(f"{package.name} {package.version} was not chosen")
        if package.directory or package.vcs:
            raise _strange(f"the source of {package.name} is a folder or a repository")
        if not all(any(map(place.is_relative_to, allowed)) for place in _places(package)):
            raise _strange(f"a file of {package.name} is not in a folder that was named")


def _places(package: Package) -> Iterator[Path]:
    """Yield where files of a package are on this host."""
    addresses = [(each.url, each.path) for each in package.wheels or ()]
    addresses += [(each.url, each.path) for each in (package.sdist, package.archive) if each]
    yield from filter(None, (_place(*each) for each in addresses))


def _place(url: str | None, path: str | None) -> Path | None:
    """Return where a file is on this host, without links; None for a file of a server."""
    parts = urlsplit(url or "")
    if url and parts.scheme != "file":
        return None
    return Path(os.path.realpath(unquote(parts.path) if url else path or ""))


def _urls(requested: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in requested:
        with suppress(InvalidRequirement):  # Code of the user's own.
            requirement = Requirement(line)
            if requirement.url:
                yield normal(requirement.name), line


def _strange(why: str) -> StepError:
    hint = "leave out the packages that have no wheel"
    return StepError(Problem("a source changed the answer of uv", why=why, hint=hint))
