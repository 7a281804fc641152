"""Report whether an image matches the digests that were recorded when it was written."""

from pathlib import Path

from lumicontainer.errors import Problem
from lumicontainer.image import digests
from lumicontainer.image.digests import NOT_RECORDED, IntegrityResult
from lumicontainer.image.sif import no_image
from lumicontainer.system import units


def check_image(image: Path) -> IntegrityResult:
    """Check every byte of an image; raise ``InputError`` if it cannot be read."""
    try:
        return digests.check(image)
    except OSError as error:
        raise no_image(image, error.strerror or str(error)) from error


def problem(image: Path, result: IntegrityResult, *, level: str = "error") -> Problem:
    """Return the message for an image that has changed or has no record of digests."""
    if result.state == NOT_RECORDED:
        what, hint = "the image has no record of its digests", "build it with lumicontainer build"
        why = "an engine or an earlier lumicontainer wrote it: changed bytes cannot be found"
    else:
        what = "the image has changed since it was written"
        why, hint = "\n".join(result.problems), "rebuild it, or copy it from an intact file"
    return Problem(what, str(image), why, hint, level)


def summary(result: IntegrityResult) -> str:
    """Return which bytes of an intact image were checked."""
    text = f"{units.size(result.proven)} in {len(result.parts)} parts match their digests"
    if later := ", ".join(map(str, result.appended)):
        text += f"; appended since and not checked: {later} (singularity verify checks signatures)"
    return text
