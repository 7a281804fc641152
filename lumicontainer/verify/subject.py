"""What is verified: an image, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumicontainer.errors import InputError, Problem
from lumicontainer.image import records
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.verify import options

Row = Mapping[str, Any]
"""A check as the image's checks.json has it, or with what came of it."""


@dataclass(frozen=True)
class Subject:
    """Hold an image with its checks and its record."""

    image: Path
    checks: tuple[Row, ...]
    resolved: Mapping[str, Any]


def read_subject(image: Path) -> Subject:
    """Read what an image tells of itself; raise ``InputError`` where it has no checks."""
    return Subject(image, tuple(records.checks(image)), records.resolved(image))


def in_other_ways(checks: Sequence[Row]) -> Iterator[Row]:
    """Yield a check for each other way of starting a container in which one is to hold."""
    for check in checks:
        for way in check.get("start_modes", ()):
            if way != "exec":
                yield {**check, "name": f"{check['name']} [{way}]", "of": check["name"], "way": way}


def chosen(checks: Sequence[Row], level: str, names: Sequence[str]) -> list[Row]:
    """Return the checks to make; raise ``InputError`` where a name is none's.

    The whole name of a check stands for it in each way of starting a container.
    """
    names = [*names, *(each["name"] for each in checks if each.get("of") in names)]
    try:
        return options.chosen(checks, level, names)
    except LaunchError as error:
        hint = error.hint.replace("lumi-verify", "lumicontainer verify IMAGE")
        raise InputError(Problem(error.what, error.where, error.why, hint)) from error


def required(text: str) -> str:
    """Return what ``--require`` names; raise ``InputError`` where there is no such thing."""
    try:
        options.required_kinds(text)
    except LaunchError as error:
        raise InputError(Problem(error.what, error.where, error.why, error.hint)) from error
    return text
