"""Work in folders that a step or a base has filled, without following links there.

A link that an engine resolves in the container may lead to the user's files on the host.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = re.compile(rb"(?m)^Package: ([a-z0-9.+-]+)$")


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def not_files(folder: Path, suffix: str = "") -> Iterator[Path]:
    """Yield the entries of a folder that are not regular files with this suffix.

    Yield the folder itself if it is not one.
    """
    if not is_folder(folder):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if not stat.S_ISREG(path.lstat().st_mode) or not path.name.endswith(suffix):
            yield path


def write_new(folder: Path, text: str) -> Path:
    """Write a file with a new name in ``folder`` and return its path."""
    descriptor, name = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return Path(name)


def packages_listed(tree: Path) -> set[str]:
    """Return the names of the Debian packages in a tree's apt lists."""
    found: set[str] = set()
    folder = tree / "var/lib/apt/lists"
    if folder.resolve() != tree.resolve() / "var/lib/apt/lists":
        return found
    for path in folder.glob("*_Packages"):
        if path.is_file() and not path.is_symlink():
            found |= {name.decode() for name in _PACKAGE.findall(path.read_bytes())}
    return found


def copy_command(folder: Path, tree: Path) -> list[str]:
    """Return the command that copies the content of ``folder`` into ``tree``.

    It fails if ``folder`` has a folder where the tree has something else.
    """
    options = ["-a", "--no-preserve=timestamps", "--remove-destination"]
    return ["cp", *options, f"{folder}/.", str(tree)]


def clean_base(tree: Path) -> None:
    """Remove the engine's metadata from a base, and add /etc/hosts if it is missing."""
    metadata, hosts = tree / ".singularity.d", tree / "etc/hosts"
    if is_folder(metadata):
        # They name the build host and time; the image gets its own.
        for name in ("Singularity", "labels.json"):
            (metadata / name).unlink(missing_ok=True)
        shutil.rmtree(metadata / "bootstrap_history", ignore_errors=True)
    there = hosts.is_symlink() or (hosts.exists() and hosts.stat().st_size)
    if is_folder(hosts.parent) and not there:
        # Debootstrap creates none, and steps run without the host's.
        hosts.unlink(missing_ok=True)
        hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
        hosts.chmod(0o644)
