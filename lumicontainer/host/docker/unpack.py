"""Make a tar of the files of an image file. Runs as root.

Usage: python -m lumicontainer.host.docker.unpack IMAGE TREE TAR

TREE is a new folder, which is removed at the end.
"""

import shutil
import sys
from pathlib import Path

from lumicontainer.image import sif
from lumicontainer.system import budget, process
from lumicontainer.system.os_errors import run_guarded

_ALWAYS = ("-quiet", "-no-progress", "-no-xattrs")


def unpack(image: Path, folder: Path) -> None:
    """Unpack the file system of an image."""
    place = ["-offset", str(sif.root(image).offset), "-dest", str(folder)]
    process.capture(["unsquashfs", *_ALWAYS, *place, str(image)], limits=budget.FILES)


def main() -> None:
    """Read the command line."""
    _, image, tree, tar = sys.argv
    unpack(Path(image), Path(tree))
    process.run(["tar", "--create", "--numeric-owner", "-C", tree, "-f", tar, "."])
    shutil.rmtree(tree)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
