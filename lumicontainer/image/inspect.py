"""Read the bytes of an image without starting a container: its metadata object, its files."""

from __future__ import annotations

from pathlib import Path

from lumicontainer.core.plan.plan import HOME
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.image import digests, integrity, sif
from lumicontainer.system import process
from lumicontainer.system.files.regular import open_regular

KEY_LABEL = "org.lumicontainer.key"
CHECKED_LABEL = "org.lumicontainer.checked"
"""What an image that was not checked has beside its key, as ``no``."""
METADATA = sif.METADATA
LIMIT = 64 << 20
"""Bytes that are read of a record at most; a definition with all its files has 400,000."""
_NO_SUCH_FILE = 2
"""The exit status of unsquashfs where all it lacks is the file; 1 is of what it cannot read."""


def metadata(image: Path) -> bytes | None:
    """Return the metadata object of an image; None where it has none.

    Raises ``InputError`` where ``image`` is no image.
    """
    for each in sif.read_objects(image):
        if each.kind == sif.JSON and each.name == METADATA:
            if each.offset < 0 or not 0 <= each.size <= LIMIT:
                raise sif.no_image(image, f"its descriptor of {METADATA} is damaged")
            with open_regular(image) as file:
                file.seek(each.offset)
                return file.read(each.size)
    return None


def recorded(image: Path, name: str) -> bytes:
    """Return a record of lumicontainer in an image; raise ``InputError`` where it has none."""
    found = read_file(image, f"{HOME[1:]}/{name}")
    if found is not None:
        return found
    _refuse_changed(image)
    raise InputError(
        Problem(
            "the image has no record of lumicontainer",
            str(image),
            why=f"{HOME}/{name} is not in it: something else built it, or an older lumicontainer",
            hint="build it with lumicontainer build; singularity exec starts any image",
        )
    )


def read_file(image: Path, name: str) -> bytes | None:
    """Return the bytes of one file in an image; None where it has none.

    Raises ``HostError`` where this host cannot read the image's file systems, and ``InputError``
    where these are damaged.
    """
    for each in reversed(sif.partitions(image)):
        # What an engine's user lays on top of an image is ext3; what the image tells is below.
        found = _cat(image, each.offset, name) if each.form == sif.SQUASHFS else None
        if found is not None:
            return found
    return None


def _cat(image: Path, offset: int, name: str) -> bytes | None:
    command = ["unsquashfs", "-offset", str(offset), "-cat", str(image), name]
    try:
        return process.capture_bytes(command, limit=LIMIT)
    except process.ProgramError as error:
        if error.status == _NO_SUCH_FILE:
            return None
        _refuse_changed(image)
        said = "\n".join(f"{each.what}: {each.why}" for each in error.problems)
        if "ompression" not in said:
            raise sif.no_image(image, f"its file system cannot be read\n{said}") from error
        hint = "get squashfs-tools 4.5 or later with its compression, or copy the image here again"
        raise HostError(
            Problem("this host cannot read the image", str(image), said, hint)
        ) from error


def _refuse_changed(image: Path) -> None:
    """Raise ``InputError`` where a byte of an image is not as it was written."""
    found = integrity.examined(image)
    if found.state == digests.CHANGED:
        raise InputError(integrity.problem(image, found))
