"""Work in folders that a step or a base has filled, without following links there.

A link that an engine resolves in the container may lead to the user's files on the host.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = re.compile(rb"(?m)^Package: ([a-z0-9.+-]+)$")


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
    """Return the names of the Debian packages in a tree's apt lists."""
    names: set[str] = set()
    folder = tree / "var/lib/apt/lists"
    if folder.resolve() != tree.resolve() / "var/lib/apt/lists":
        return names
    for path in folder.glob("*_Packages"):
        if path.is_file() and not path.is_symlink():
            names |= {name.decode() for name in _PACKAGE.findall(path.read_bytes())}
    return names


def write_tree(folder: Path, files: Iterable[tuple[str, int, bytes]]) -> None:
    """Write files (name, mode, content) and their folders, independent of the umask."""
    for name, mode, content in files:
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
