"""A root filesystem of a few programs of this host, which every engine and runtime starts fast."""

import re
import shutil
from pathlib import Path

import pytest

from lumicontainer.image import sif, squashfs
from lumicontainer.image.assembly.assemble import Source

from ..integration.conftest import (
    check_output,
    clients,
    cluster,
    files,
    home,
    image,
    ordinary_user,
    running_cluster,
)
from ..integration.people import let_in

__all__ = ["clients", "cluster", "files", "home", "image", "ordinary_user", "running_cluster"]

PROGRAMS = ("cat", "chmod", "chown", "env", "id", "ls", "mkdir", "pwd", "rm", "sh", "touch", "true")
FOLDERS = ("dev", "etc", "home", "mnt", "opt", "proc", "root", "sys", "tmp", "usr", "var/tmp")
RUNSCRIPT = '#!/bin/sh\nshift\nexec "$@"\n'
"""As of a built image: its first word is ``--``, for a program that is no script."""
MERGED = ("bin", "lib", "lib64", "sbin")
"""Links to the folders of the same names in /usr, as Debian has them."""


def copy_program(name: str, root: Path) -> None:
    """Copy a program with the libraries that it is linked with."""
    program = shutil.which(name)
    assert program, f"{name} is missing on this host"
    libraries = re.findall(r"(/\S+) \(0x", check_output("ldd", program))
    for path in (f"/usr/bin/{name}", *libraries):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program if path.endswith(f"/{name}") else path, target)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the files of a system that has a shell."""
    root = tmp_path_factory.mktemp("tiny") / "root"
    let_in(root.parent)
    for folder in (*FOLDERS, *(f"usr/{each}" for each in MERGED)):
        (root / folder).mkdir(parents=True)
    for each in MERGED:
        (root / each).symlink_to(f"usr/{each}")
    for each in ("tmp", "var/tmp"):
        (root / each).chmod(0o1777)
    for name in PROGRAMS:
        copy_program(name, root)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    # Every base has these: containers mount the host's in their places.
    for name in ("hostname", "hosts", "resolv.conf"):
        (root / "etc" / name).touch()
    (root / ".singularity.d").mkdir()
    (root / ".singularity.d/runscript").write_text(RUNSCRIPT)
    (root / ".singularity.d/runscript").chmod(0o755)
    return root


def pack(root: Path, layer: Path, compression: str) -> Path:
    """Pack a folder as a layer."""
    squashfs.pack_as_root(root, layer, compression)
    return layer


def write_image(root: Path, image: Path, compression: str) -> Path:
    """Pack a folder as an image."""
    layer = pack(root, image.with_suffix(".sqsh"), compression)
    image.touch()
    squashfs.write_image([Source(layer)], image, sif.layout("", {}))
    return image
