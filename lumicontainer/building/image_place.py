"""Say whether an image may be written to a place."""

from pathlib import Path

from lumicontainer.errors import InputError, Problem
from lumicontainer.image import sif
from lumicontainer.system import units
from lumicontainer.system.files import trust
from lumicontainer.system.files.partial import require_folder_of


def check_output(path: Path) -> None:
    """Raise ``InputError`` if an image cannot be written or would replace another file."""
    require_folder_of(path, "image")
    # The image is checked, and so executed, before it gets its name.
    if problem := trust.doubt_output(path, "the image", "--output"):
        raise InputError(problem)
    if path.exists() or path.is_symlink():
        try:
            sif.read_objects(path)
        except InputError as error:
            why = f"{error.problems[0].why}; only an image is replaced"
            hint = "name another --output, or move the file away"
            raise InputError(Problem("the output is not an image", str(path), why, hint)) from error


def require_replaceable(path: Path) -> None:
    """Raise ``InputError`` if an image there has an overlay (``singularity overlay create``)."""
    if not path.exists():
        return
    size = sum(each.size for each in sif.read_objects(path) if each.form == sif.EXT3)
    if size:
        what, why = "the image has an overlay of yours", "a new image would not have its"
        hint = "name another --output, or move the image away"
        raise InputError(Problem(what, str(path), f"{why} {units.size(size)}", hint))
