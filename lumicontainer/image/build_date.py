"""The date that an image names: an input of the image, as equal inputs make equal bytes.

Sources: reproducible-builds.org/specs/source-date-epoch; images that Apptainer 1.4.5 wrote.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from lumicontainer.errors import InputError, Problem

LABEL = "org.label-schema.build-date"
"""The label in which Apptainer and SingularityCE write the date of a build."""
VARIABLE = "SOURCE_DATE_EPOCH"
_LATEST = 253402300799
"""The last second of the year 9999."""


def read_build_date(environment: Mapping[str, str]) -> str:
    """Return the date of SOURCE_DATE_EPOCH in the form of the label; empty if it is not set.

    Raises ``InputError`` if it is not a number of seconds since 1970, until the year 9999.
    """
    named = environment.get(VARIABLE, "")
    if not named:
        return ""
    if not (named.isascii() and named.isdigit() and len(named) <= 12 and int(named) <= _LATEST):
        why = f"expected whole seconds since 1970, from 0 to {_LATEST}"
        hint = f"export {VARIABLE}=$(git log -1 --format=%ct), or unset {VARIABLE}"
        raise InputError(Problem(f"invalid {VARIABLE} {named!a:.80}", VARIABLE, why, hint))
    date = datetime.fromtimestamp(int(named), UTC)
    # Apptainer pads no number with zeros.
    clock = f"{date.hour}:{date.minute}:{date.second}"
    return f"{date:%A}_{date.day}_{date:%B}_{date.year}_{clock}_UTC"


def label_of(date: str) -> dict[str, str]:
    """Return the labels of a date, which may be empty."""
    return {LABEL: date} if date else {}
