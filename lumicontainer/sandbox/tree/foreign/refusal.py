"""The error for what an image of others may not hold."""

from lumicontainer.errors import InputError, Problem

OUT = "it leads out of the image's tree"


def refusal(path: str, why: str) -> InputError:
    """Return the error for a path of an image that is not unpacked; it may hold any characters."""
    hint = "use another image, or ask the makers of this one"
    return InputError(Problem("cannot unpack the image", repr(path[:300])[1:-1], why, hint))
