"""Write the environment definition file (EDF) of CSCS's container engine.

Its documentation: https://docs.cscs.ch/software/container-engine/edf/
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lumicontainer.constants import DEFAULTS, search_path
from lumicontainer.core.render.jinja import fill
from lumicontainer.errors import InputError, Problem
from lumicontainer.frontends.owned import MARK, OwnFile
from lumicontainer.host.binds import Needs
from lumicontainer.host.host_libraries import Mount
from lumicontainer.image import records, sif
from lumicontainer.system.files.write import sync

SUFFIX = ".squashfs"


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
        "variables": _environment(records.resolved(image)["layers"].values()),
    }
    return OwnFile(path, fill("edf.toml.j2", **values))


def _mount(mount: Mount) -> str:
    # An option of Apptainer's: the source is an image whose root is mounted.
    flag = ":sqsh" if mount.mode.startswith("image-src=") else ""
    return f"{mount.source}:{mount.target}{flag}"


def write_squashfs(image: Path) -> None:
    """Copy the file system of an image into a file beside it, unless that is newer.

    Raises ``InputError`` if the image has several: the engine reads one.
    """
    target = _squashfs(image)
    if target.exists() and target.stat().st_mtime >= image.stat().st_mtime:
        return
    parts = sif.partitions(image)
    if len(parts) != 1:
        why = "it has several file systems, and CSCS's container engine reads one"
        hint = "build it with lumicontainer build --pack flat"
        raise InputError(Problem("cannot use a layered image", str(image), why, hint))
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with image.open("rb") as source, draft.open("wb") as copy:
            source.seek(parts[0].offset)
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.truncate(parts[0].size)
        sync(draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _squashfs(image: Path) -> Path:
    return image.absolute().with_name(f"{image.name}{SUFFIX}")


def _environment(layers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what the image's own start would set, which the engine does not run."""
    found, path = dict(DEFAULTS), list[str]()
    for layer in layers:
        found |= layer.get("environment", {})
        path = [*layer.get("path", ()), *path]
    return {**found, "PATH": search_path(path)}
