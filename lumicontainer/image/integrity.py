"""Compare an image with the digests that were recorded when it was written."""

from __future__ import annotations

from pathlib import Path

from lumicontainer.errors import Problem
from lumicontainer.image import digests
from lumicontainer.image.digests import CHANGED, NOT_RECORDED, Check
from lumicontainer.image.sif import no_image
from lumicontainer.system import units


def examined(image: Path) -> Check:
    """Read every byte of an image; raise ``InputError`` where it cannot be read."""
    try:
        return digests.check(image)
    except OSError as error:
        raise no_image(image, error.strerror or str(error)) from error


def problem(image: Path, found: Check, *, level: str = "error") -> Problem:
    """Return the message for an image that is not proven to be as it was written."""
    if found.state == NOT_RECORDED:
        return Problem(
            "the image has no record of its digests",
            str(image),
            why="a plain engine or an earlier lumicontainer wrote it: a changed byte is not found",
            hint="build it with lumicontainer build",
            level=level,
        )
    assert found.state == CHANGED
    return Problem(
        "the image is not as it was written",
        str(image),
        why="\n".join(found.problems),
        hint="build it again, or copy it again from where it is whole",
        level=level,
    )


def summary(found: Check) -> str:
    """Return in words what is proven of an image that is whole."""
    text = f"{units.size(found.proven)} in {len(found.parts)} parts are as they were written"
    if not found.appended:
        return text
    later = ", ".join(part.where for part in found.appended)
    return (
        f"{text}; appended since, and not proven: {later} "
        "(singularity verify proves what is signed)"
    )
