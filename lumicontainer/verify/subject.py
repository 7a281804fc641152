"""The image that is verified: its checks and its record."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.errors import InputError, Problem
from lumicontainer.image import records
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.verify import options, report

Row = Mapping[str, Any]
"""A check as in the image's checks.json, or with its result."""


class Subject(NamedTuple):
    """Hold an image with its checks and its record."""

    image: Path
    checks: tuple[Row, ...]
    resolved: Mapping[str, Any]


@contextmanager
def input_errors() -> Iterator[None]:
    """Raise an error of the code in images as an ``InputError``."""
    try:
        yield
    except LaunchError as error:
        hint = error.hint.replace("lumi-verify", "lumicontainer verify IMAGE")
        raise InputError(Problem(error.what, error.where, error.why, hint)) from error


@contextmanager
def output_errors(file: str) -> Iterator[None]:
    """Raise an error of writing a file of this host as an ``InputError``."""
    try:
        yield
    except LaunchError as error:
        where = "stdout" if file == report.STDOUT else str(Path(file).absolute())
        hint = "choose a file in an existing and writable folder, or - for stdout"
        raise InputError(Problem(error.what, where, error.why, hint)) from error


def read_subject(image: Path) -> Subject:
    """Read the records of an image; raise ``InputError`` if it has no checks."""
    return Subject(image, tuple(records.checks(image)), records.resolved(image))


def in_other_ways(checks: Sequence[Row]) -> Iterator[Row]:
    """Yield a check for each further start mode of a container in which it must pass."""
    for check in checks:
        for way in check.get("start_modes", ()):
            if way != "exec":
                yield {**check, "name": f"{check['name']} [{way}]", "of": check["name"], "way": way}


def chosen(checks: Sequence[Row], level: str, names: Sequence[str]) -> list[Row]:
    """Return the checks to run; raise ``InputError`` if a name matches none.

    The full name of a check selects it in every start mode.
    """
    names = [*names, *(each["name"] for each in checks if each.get("of") in names)]
    with input_errors():
        return options.choose_checks(checks, level, names)
