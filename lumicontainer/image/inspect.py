"""Read the metadata object and the files of an image without starting a container."""

from pathlib import Path

from lumicontainer.constants import HOME
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.image import digests, integrity, sif
from lumicontainer.system import budget, process
from lumicontainer.system.files.regular import open_regular

KEY_LABEL = "org.lumicontainer.key"
CHECKED_LABEL = "org.lumicontainer.checked"
"""The label is ``no`` in an image that was built with ``--no-verify``."""
METADATA = sif.METADATA
LIMIT = 64 << 20
"""The largest record, in bytes; a definition with all its files has 400,000."""
_NO_SUCH_FILE = 2
"""The exit status of unsquashfs for a missing file; 1 is for a file system that it cannot read."""


def metadata_bytes(image: Path) -> bytes | None:
    """Return the metadata object of an image or None; raise ``InputError`` for another file."""
    return object_bytes(image, METADATA)


def object_bytes(image: Path, name: str) -> bytes | None:
    """Return the object of a name in an image or None; raise ``InputError`` for another file."""
    for each in sif.read_objects(image):
        if each.name == name and each.kind in sif.DOCUMENTS:
            inside = each.offset >= 0 and each.end <= image.stat().st_size
            if not (inside and 0 <= each.size <= LIMIT):
                raise sif.no_image(image, f"its descriptor of {name} is damaged")
            with open_regular(image) as file:
                file.seek(each.offset)
                return file.read(each.size)
    return None


def read_recorded(image: Path, name: str) -> bytes:
    """Return a record of lumicontainer in an image; raise ``InputError`` if it has none."""
    content = read_file(image, f"{HOME[1:]}/{name}")
    if content is not None:
        return content
    _refuse_changed(image)
    why = f"it has no file {HOME}/{name}: another program or an older lumicontainer built it"
    hint = "build it with lumicontainer build; singularity exec starts any image"
    raise InputError(Problem("the image has no record of lumicontainer", str(image), why, hint))


def read_file(image: Path, name: str) -> bytes | None:
    """Return the bytes of a file in an image; None if it is missing."""
    place = str(sif.root(image).offset)
    command = ["unsquashfs", "-offset", place, "-cat", str(image.absolute()), name]
    try:
        return process.capture_bytes(command, limits=budget.QUESTION._replace(most=LIMIT))
    except process.OverLimitError as error:
        raise sif.no_image(image, f"its '{name}': {error.problems[0].why}") from error
    except process.ProgramError as error:
        if error.status == _NO_SUCH_FILE:
            return None
        _refuse_changed(image)
        why = "\n".join(f"{each.what}: {each.why}" for each in error.problems)
        if "ompression" not in why:
            raise sif.no_image(image, f"its file system cannot be read\n{why}") from error
        what = "this host cannot read the image"
        hint = "install squashfs-tools 4.5 or later, or copy the image from its source"
        raise HostError(Problem(what, str(image), why, hint)) from error


def _refuse_changed(image: Path) -> None:
    """Raise ``InputError`` if a byte of an image has changed since it was written."""
    result = integrity.check_image(image)
    if result.state == digests.CHANGED:
        raise InputError(integrity.problem(image, result))
