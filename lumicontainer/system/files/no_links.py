"""Work in folders that a step or a base has filled, without following links there.

A link that an engine resolves in the container may lead to the user's files on the host.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from lumicontainer.system.files.foreign import OddFilesError, names_below, read_below

_PACKAGE = re.compile(rb"(?m)^Package: ([a-z0-9.+-]+)$")
_LISTS = "var/lib/apt/lists"
_LARGEST_LIST = 256 << 20
"""Bytes; the list of Ubuntu's universe has 70 MB."""
_MOST_PACKAGES = 1_000_000
"""A release of Debian has 70,000."""


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def remove(path: Path) -> None:
    """Remove a path of any kind."""
    if is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def packages_listed(tree: Path) -> set[str]:
    """Return the names of the Debian packages in the readable apt lists of a tree."""
    return set(islice(_each_listed(tree), _MOST_PACKAGES))


def _each_listed(tree: Path) -> Iterator[str]:
    names: list[str] = []
    with suppress(OSError):
        names = names_below(tree, _LISTS)
    for name in names:
        if name.endswith("_Packages"):
            with suppress(OddFilesError):
                content = read_below(tree, f"{_LISTS}/{name}", _LARGEST_LIST)
                yield from (match[1].decode() for match in _PACKAGE.finditer(content))


def write_tree(folder: Path, files: Iterable[tuple[str, int, bytes]]) -> None:
    """Write files (name, mode, content) and their folders, independent of the umask.

    Raises ``ValueError`` for a name that leads out of ``folder``: it may come from an image.
    """
    for name, mode, content in files:
        if name.startswith("/") or ".." in Path(name).parts:
            raise ValueError(f"{name!r} is not below the folder")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        each.chmod(0o755)


def copy_command(folder: Path, tree: Path) -> list[str]:
    """Return the command that copies the content of ``folder`` into ``tree``.

    New folders get the mode 0755, and files keep their modes. It fails if ``folder`` has a folder
    where the tree has something else.
    """
    copy = ["cp", "--recursive", "--no-dereference", "--remove-destination"]
    return ["sh", "-c", 'umask 022 && exec "$@"', "sh", *copy, f"{folder}/.", str(tree)]


def clean_base(tree: Path) -> None:
    """Remove the engine's metadata from a base, and add /etc/hosts if it is missing."""
    metadata, hosts = tree / ".singularity.d", tree / "etc/hosts"
    if is_folder(metadata):
        # They name the build host and time; the image gets its own.
        for name in ("Singularity", "labels.json"):
            (metadata / name).unlink(missing_ok=True)
        shutil.rmtree(metadata / "bootstrap_history", ignore_errors=True)
    is_present = hosts.is_symlink() or (hosts.exists() and hosts.stat().st_size)
    if is_folder(hosts.parent) and not is_present:
        # Debootstrap creates none, and steps run without the host's.
        hosts.unlink(missing_ok=True)
        hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
        hosts.chmod(0o644)
