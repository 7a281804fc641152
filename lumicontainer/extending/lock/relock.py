"""Take names and versions alone from the lock of a container in which code of a source ran.

Code that uv builds there can print another lock. Uv looks up the files of these versions in a
container where nothing is built.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

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


def read_answer(text: str) -> Pylock:
    """Return the lock that uv printed; raise ``StepError`` for a text that it would not print."""
    try:
        return read_pylock(text)
    except PylockError as error:
        raise _strange(str(error)) from error


def read_pins(lock: Pylock, wanted: Iterable[str], code: Sequence[Path]) -> Pins:
    """Return the versions in a lock that uv may not have printed.

    ``wanted`` are the user's lines; their URLs count, those of the lock do not. Raises
    ``StepError`` if the lock holds anything that uv would not print.
    """
    urls, folders = dict(_urls(wanted)), {os.path.realpath(each) for each in code}
    lines, metadata, own = [], [], []
    for package in lock.packages:
        name, version, folder = package.name, package.version, package.directory
        if folder and folder.editable and os.path.realpath(folder.path) in folders:
            source = PackageDirectory(path=folder.path, editable=True)
            own.append(Package(name=name, directory=source))
        elif version is not None:
            lines.append(urls.get(name, f"{name}=={version}"))
            metadata.append(f'[[dependency-metadata]]\nname = "{name}"\nversion = "{version}"')
        else:
            raise _strange(f"the source of {name} has no version")
    return Pins(tuple(lines), "".join(f"{each}\n" for each in metadata), tuple(own))


def _urls(wanted: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in wanted:
        with suppress(InvalidRequirement):  # Code of the user's own.
            requirement = Requirement(line)
            if requirement.url:
                yield normal(requirement.name), line


def _strange(why: str) -> StepError:
    hint = "leave out the packages that have no wheel"
    return StepError(Problem("a source changed the answer of uv", why=why, hint=hint))
