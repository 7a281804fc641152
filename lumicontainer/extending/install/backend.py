"""Choose the packages that the build of the user's own code may import.

Its folder can be written there, and any package on Python's path can run (``sitecustomize``), so
only those count that the code names for its build.
"""

import email
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.wheel_names import normal, wheel_package
from lumicontainer.errors import Problems
from lumicontainer.extending.reading.toml_files import build_requirements
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.files.wheels import open_wheel

_MOST = 1 << 20
"""Bytes of a pyproject.toml, and of the metadata of a wheel."""


def wheels_of_backend(folder: Path, wheels: Sequence[Path]) -> list[Path]:
    """Return the wheels that own code names for its build, with those that they require."""
    by_name = {name: each for each in wheels for name, _ in wheel_package(each.name)}
    needed: dict[str, Path] = {}
    names = [*_names(_build_requires(folder))]
    while names:
        name = names.pop()
        if name in by_name and name not in needed:
            needed[name] = by_name[name]
            names += _names(_requires(by_name[name]))
    return [*needed.values()]


def _build_requires(folder: Path) -> list[str]:
    file = folder / "pyproject.toml"
    try:
        with open_regular(file) as stream:
            text = stream.read(_MOST).decode(errors="replace")
    except OSError:
        return []
    return [each.text for each in build_requirements(text, str(file), Problems())]


def _requires(wheel: Path) -> list[str]:
    with open_wheel(wheel) as archive:
        for name in archive.namelist():
            if name.count("/") == 1 and name.endswith(".dist-info/METADATA"):
                with archive.open(name) as file:
                    message = email.message_from_bytes(file.read(_MOST))
                return message.get_all("Requires-Dist", [])
    return []


def _names(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        with suppress(InvalidRequirement):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                yield normal(requirement.name)
