"""Verify the image file that a base is made of."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lumicontainer.errors import DownloadError, HostError, Problem
from lumicontainer.image import sif
from lumicontainer.image.survey import survey, wrong_versions
from lumicontainer.system.files.regular import FileState, file_state
from lumicontainer.system.os_errors import refused


def state_and_hash(path: Path) -> tuple[FileState, str]:
    """Return the state and the sha256 of an image file that can be a base.

    Raises ``HostError`` if it cannot be read, ``InputError`` if it is another file.
    """
    try:
        state = file_state(path)
        sif.root(path)
        with path.open("rb") as file:
            return state, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        hint = "correct the path of the base image, or build on a host that has the file"
        raise refused(error, "cannot read the base image", str(path), hint) from error


def require_image(path: Path, sha256: str, stated: Mapping[str, str]) -> FileState:
    """Return the state of an image file; raise ``DownloadError`` if its sha256 differs.

    The error names the versions that its layer states and the file has not.
    """
    state, actual = state_and_hash(path)
    if actual != sha256:
        differ = list[str]()
        with suppress(HostError):  # It may be cut short.
            differ = wrong_versions(stated, survey(path).provides)
        why = "\n".join((f"expected {sha256}", f"found    {actual}", *differ))
        more = " and its versions" if differ else ""
        hint = f"if you trust the file, write this sha256{more} into the layer of the base"
        what = "the base image differs from its sha256"
        raise DownloadError(Problem(what, str(path), why, hint))
    return state


def require_unchanged(path: Path, state: FileState) -> None:
    """Raise ``DownloadError`` if a file was changed since it was verified."""
    if os.path.lexists(path) and file_state(path) == state:
        return
    what, hint = "the base image changed while it was read", "repeat the build"
    raise DownloadError(Problem(what, str(path), hint=hint))
