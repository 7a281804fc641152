"""Take names and versions alone from the lock of a container in which code of a source ran.

Code that uv builds there can print another lock. Uv looks up the files of these versions in a
container where nothing is built.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Problem, StepError
from lumicontainer.packages.toml import TomlError, read_toml

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_OWN = '\n[[packages]]\nname = "{}"\ndirectory = {{ path = {}, editable = true }}\n'


class Pins(NamedTuple):
    """Hold the versions that a resolution chose."""

    lines: tuple[str, ...]
    """One requirement of each package, by which uv finds its files."""
    settings: str
    """Settings of uv by which it needs no metadata of these packages, and so builds none."""
    own: str
    """The part of the lock with the user's own code."""


def read_pins(lock: str, wanted: Iterable[str], code: Sequence[Path]) -> Pins:
    """Return the versions in a lock that uv may not have printed.

    ``wanted`` are the user's lines; their URLs count, those of the lock do not. Raises
    ``StepError`` if the lock holds anything that uv would not print.
    """
    urls, folders = dict(_urls(wanted)), {os.path.realpath(each) for each in code}
    lines, metadata, own = [], [], []
    for row in _rows(lock):
        match row:
            case {"name": str(name), "directory": {"path": str(path), "editable": True}} if (
                _NAME.fullmatch(name) and os.path.realpath(path) in folders
            ):
                own.append(_OWN.format(name, json.dumps(path)))
            case {"name": str(name), "version": str(text)} if _NAME.fullmatch(name):
                version = _version(text)
                lines.append(urls.get(normal(name), f"{name}=={version}"))
                metadata.append(f'[[dependency-metadata]]\nname = "{name}"\nversion = "{version}"')
            case _:
                raise _strange(f"its row {row!a:.200}")
    return Pins(tuple(lines), "".join(f"{each}\n" for each in metadata), "".join(own))


def _urls(wanted: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in wanted:
        with suppress(InvalidRequirement):  # Code of the user's own.
            requirement = Requirement(line)
            if requirement.url:
                yield normal(requirement.name), line


def _rows(lock: str) -> list[Mapping[str, Any]]:
    try:
        found = read_toml(lock).get("packages", [])
    except TomlError as error:
        raise _strange(str(error)) from error
    if not isinstance(found, list):
        raise _strange("its packages are no list")
    return found


def _version(text: str) -> str:
    try:
        return str(Version(text))
    except ValueError as error:
        raise _strange(f"the version {text!a:.200}") from error


def _strange(why: str) -> StepError:
    hint = "leave out the packages that have no wheel"
    return StepError(Problem("a source changed the answer of uv", why=why, hint=hint))
