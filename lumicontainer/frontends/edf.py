"""Write the environment definition file (EDF) of CSCS's container engine.

Its documentation: https://docs.cscs.ch/software/container-engine/edf/
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lumicontainer.core.plan.variables import recorded_variables
from lumicontainer.core.render.jinja import fill
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending.facts import image_id
from lumicontainer.frontends.owned import MARK, OwnFile, in_the_way
from lumicontainer.host.binds import Needs
from lumicontainer.host.host_libraries import Mount
from lumicontainer.image import records, sif
from lumicontainer.image.squashfs import apply_umask
from lumicontainer.system.files import trust
from lumicontainer.system.files.partial import partial_file, remove_leftovers
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.files.write import replace

SUFFIX = ".squashfs"
_BLOCK = 4096
_MARK = f"{MARK} kernel --edf from image "
"""Begins the block behind a copied file system, which ends with the identity of its image."""


def edf_folder(prefix: Path | None, environment: Mapping[str, str]) -> Path:
    """Return ``prefix``, or the first folder where the engine looks for the user's files."""
    default = os.path.expanduser("~/.edf")  # noqa: PTH111
    return Path(prefix or environment.get("EDF_PATH", "").partition(":")[0] or default).absolute()


def edf(image: Path, needs: Needs, path: Path) -> OwnFile:
    """Return the definition of an image, whose file system ``write_squashfs`` copies."""
    values = {
        "mark": f"{MARK} kernel --edf.",
        "image": str(_squashfs(image)),
        "mounts": [_mount(each) for each in needs.mounts],
        "variables": recorded_variables(records.resolved(image)["layers"].values()),
    }
    return OwnFile(path, fill("edf.toml.j2", **values))


def _mount(mount: Mount) -> str:
    # An option of Apptainer's: the source is an image whose root is mounted.
    flag = ":sqsh" if mount.mode.startswith("image-src=") else ""
    return f"{mount.source}:{mount.target}{flag}"


def write_squashfs(image: Path) -> None:
    """Copy the file system of an image into a file next to it, unless it is there.

    Raises ``InputError`` if the image has an overlay, because the engine reads one file system, and
    if a file of another program has the name of the copy.
    """
    target, root = _squashfs(image), sif.root(image)
    hint = "move the image to a folder of yours"
    if problem := trust.doubt_file(target, "the copy of its files", hint):
        raise InputError(problem)
    mark = f"{_MARK}{image_id(image)}\n".encode().ljust(_BLOCK, b"\0")
    last_block, size = _read_end(target)
    if last_block == mark and size == root.size + _BLOCK:
        return
    if os.path.lexists(target) and not last_block.startswith(_MARK.encode()):
        raise InputError(in_the_way(target, "move it, or the image, to another folder"))
    if sif.has_overlay(image):
        what, why = "the image has an overlay of yours", "CSCS's container engine reads none"
        raise InputError(Problem(what, str(image), why, "name the image without it"))
    remove_leftovers(target)
    with partial_file(target) as partial:
        with image.open("rb") as source, partial.open("wb") as copy:
            source.seek(root.offset)
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.truncate(root.size)
            copy.seek(root.size)
            copy.write(mark)
        apply_umask(partial, 0o666)
        replace(partial, target)


def _read_end(path: Path) -> tuple[bytes, int]:
    """Return the last block of a file, which is empty if it has none, and the file's size."""
    with suppress(OSError), open_regular(path) as file:
        size = file.seek(-_BLOCK, os.SEEK_END) + _BLOCK
        return file.read(_BLOCK), size
    return b"", 0


def _squashfs(image: Path) -> Path:
    return image.absolute().with_name(f"{image.name}{SUFFIX}")
