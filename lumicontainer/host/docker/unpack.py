"""Make a tar of what the file systems of an image file hold together. Runs as root.

Usage: python -m lumicontainer.host.docker.unpack IMAGE TREE TAR

TREE is a new folder, which is removed at the end.
"""

import os
import shutil
import stat
import sys
from pathlib import Path

from lumicontainer.image import sif
from lumicontainer.system import budget, process
from lumicontainer.system.files import no_links
from lumicontainer.system.os_errors import guarded

_ALWAYS = ("-quiet", "-no-progress", "-no-xattrs")


def unpack(image: Path, folder: Path) -> None:
    """Unpack the root file system and the overlays on it."""
    for number, each in enumerate(sif.partitions(image)):
        part = folder.with_name(f"{folder.name}.{number}") if number else folder
        place = ["-offset", str(each.offset), "-dest", str(part)]
        process.capture(["unsquashfs", *_ALWAYS, *place, str(image)], limits=budget.FILES)
        if number:
            _overlay(part, folder)
            shutil.rmtree(part)


def _overlay(upper: Path, lower: Path) -> None:
    """Move an upper folder onto a lower one; a device 0/0 removes what has its name there."""
    for path in upper.iterdir():
        there, info = lower / path.name, path.lstat()
        if stat.S_ISDIR(info.st_mode) and no_links.is_folder(there):
            os.chown(there, info.st_uid, info.st_gid)
            there.chmod(stat.S_IMODE(info.st_mode))
            _overlay(path, there)
            continue
        no_links.remove(there)
        if not stat.S_ISCHR(info.st_mode) or info.st_rdev:
            path.rename(there)


def main() -> None:
    """Read the command line."""
    _, image, tree, tar = sys.argv
    unpack(Path(image), Path(tree))
    process.run(["tar", "--create", "--numeric-owner", "-C", tree, "-f", tar, "."])
    shutil.rmtree(tree)


if __name__ == "__main__":
    sys.exit(guarded(main))
