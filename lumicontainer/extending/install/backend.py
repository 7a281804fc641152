"""Choose the packages that the build of the user's own code may import.

Its folder can be written there, and any package on Python's path can run (``sitecustomize``), so
only those count that the code names for its build.
"""

import email
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.core.model.wheel_names import normal, wheel_package
from lumicontainer.errors import Problems
from lumicontainer.extending.facts import Facts
from lumicontainer.extending.reading.toml_files import build_requirements
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.files.wheels import open_wheel

_MOST = 1 << 20
"""Bytes of a pyproject.toml, and of the metadata of a wheel."""


def wheels_of_backend(folder: Path, wheels: Sequence[Path], facts: Facts) -> list[Path]:
    """Return the wheels that own code names for its build, with those that they require.

    ``facts`` describe the image that builds it.
    """
    by_name = {name: each for each in wheels for name, _ in wheel_package(each.name)}
    needed: dict[str, Path] = {}
    lines = _build_requires(folder)
    while lines:
        requirements = facts.applicable(lines)
        names = {normal(each.name) for each in requirements} & by_name.keys() - needed.keys()
        needed |= {name: by_name[name] for name in names}
        lines = [line for name in names for line in _requires(by_name[name])]
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
                # A value that is not ASCII is not a string of Python's.
                return [str(each) for each in message.get_all("Requires-Dist", [])]
    return []
