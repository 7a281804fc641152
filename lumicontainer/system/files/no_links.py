"""What the host does in folders that a step or a base has filled: no link there is followed.

A link in them that an engine resolves in the container may, on the host, lead to the user's files.
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
    """Tell whether a path is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def not_files(folder: Path, suffix: str = "") -> Iterator[Path]:
    """Yield what in a folder is no regular file with this suffix; the folder itself, if it is none.

    ``suffix`` is empty for any.
    """
    if not is_folder(folder):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if not stat.S_ISREG(path.lstat().st_mode) or not path.name.endswith(suffix):
            yield path


def write_new(folder: Path, text: str) -> Path:
    """Write a file under a name that nothing in ``folder`` has yet, and return its path."""
    descriptor, name = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return Path(name)


def packages_listed(tree: Path) -> set[str]:
    """Return the names of the Debian packages that a tree's lists of apt hold, if it has any."""
    found: set[str] = set()
    folder = tree / "var/lib/apt/lists"
    if folder.resolve() != tree.resolve() / "var/lib/apt/lists":
        return found
    for path in folder.glob("*_Packages"):
        if path.is_file() and not path.is_symlink():
            found |= {name.decode() for name in _PACKAGE.findall(path.read_bytes())}
    return found


def laid_upon(folder: Path, tree: Path) -> list[str]:
    """Return the command that copies what is in ``folder`` into ``tree``.

    It fails where the tree has no folder in the place of one.
    """
    options = ["-a", "--no-preserve=timestamps", "--remove-destination"]
    return ["cp", *options, f"{folder}/.", str(tree)]


def tidy_base(tree: Path) -> None:
    """Remove the engine's notes from a base, and give it a file of hosts where it has none."""
    notes, hosts = tree / ".singularity.d", tree / "etc/hosts"
    if is_folder(notes):
        # These tell of the build's host and time; the image gets its own.
        for note in ("Singularity", "labels.json"):
            (notes / note).unlink(missing_ok=True)
        shutil.rmtree(notes / "bootstrap_history", ignore_errors=True)
    there = hosts.is_symlink() or (hosts.exists() and hosts.stat().st_size)
    if is_folder(hosts.parent) and not there:
        # Debootstrap makes none, and steps run without the host's.
        hosts.unlink(missing_ok=True)
        hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
        hosts.chmod(0o644)
