"""Unpack an image of a registry without an engine, and record who owns its files.

Usage: python -m lumicontainer.build.runtimes.unpack_image IMAGE TREE RECORD FOLDER PLAIN [TRUST]

FOLDER gets the downloaded layers; PLAIN is ``http`` for a registry without https. RECORD gets the
owners by inode, as ``build.tree.owners`` writes them.
"""

import copy
import os
import shlex
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from lumicontainer.errors import InputError, Problem
from lumicontainer.host.registry import save_image
from lumicontainer.system.files.no_links import remove
from lumicontainer.system.os_errors import guarded

_GONE, _EMPTIED = ".wh.", ".wh..wh..opq"
Members = dict[str, tarfile.TarInfo]


def unpack(layer: Path, tree: Path, found: Members) -> None:
    """Unpack one layer over those below; ``found`` gets the last member of each path."""
    with tarfile.open(layer) as archive:
        archive.extraction_filter = lambda each, _: each  # Paths are checked here.
        for member in archive:
            path = member.name.removeprefix("./").strip("/")
            folder, _, name = path.rpartition("/")
            if name == _EMPTIED:
                _require_inside(tree, tree / path)
                for each in list((tree / folder).iterdir()):
                    _remove(tree, each)
            elif name.startswith(_GONE):
                _remove(tree, tree / folder / name.removeprefix(_GONE))
            elif path and not member.isdev():
                _extract(archive, member, tree, path)
                found[path] = member


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, tree: Path, path: str) -> None:
    there = tree / path
    if not (member.isdir() and there.is_dir() and not there.is_symlink()):
        _remove(tree, there)
    if member.islnk():
        _require_inside(tree, tree / member.linkname)
    # The modes of the image follow when all is there.
    opened = copy.copy(member)
    opened.mode = 0o755 if member.isdir() else 0o644
    archive.extract(opened, tree)


def _require_inside(tree: Path, path: Path) -> None:
    if ".." in path.parts or not path.parent.resolve().is_relative_to(tree.resolve()):
        raise InputError(Problem("a path of the image leads out of its tree", str(path)))


def _remove(tree: Path, path: Path) -> None:
    _require_inside(tree, path)
    remove(path)


def settle(tree: Path, found: Members) -> Iterator[str]:
    """Set the modes of the unpacked paths; yield the rows of the record."""
    for path, member in sorted(found.items(), reverse=True):
        there = tree / path
        if not os.path.lexists(there):
            continue
        if not there.is_symlink() and not member.islnk():
            there.chmod(member.mode & 0o7777)
        if (member.uid or member.gid) and not member.islnk():
            yield f"{there.lstat().st_ino} {member.uid} {member.gid}\n"


def write_environment(tree: Path, variables: Iterable[str]) -> None:
    """Write the image's variables where engines write them and look for them."""
    file = tree / ".singularity.d/env/10-docker2singularity.sh"
    _require_inside(tree, file)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "#!/bin/sh\n"
    for variable in variables:
        name, _, value = variable.partition("=")
        if name.isidentifier():
            default = f'[ -n "${{{name}-}}" ] || ' if name != "PATH" else ""
            text += f"{default}export {name}={shlex.quote(value)}\n"
    file.write_text(text)
    file.chmod(0o755)
    resolver = tree / "etc/resolv.conf"
    _require_inside(tree, resolver)
    if resolver.parent.is_dir() and not os.path.lexists(resolver):
        resolver.touch()  # Engines lay the host's over it.


def main() -> None:
    """Read the command line."""
    image, *places, plain = sys.argv[1:6]
    tree, record, folder = map(Path, places)
    trust = Path(sys.argv[6]) if len(sys.argv) > 6 else None
    os.umask(0o022)
    found: Members = {}
    saved = save_image(image, folder, plain=plain == "http", trust=trust)
    for layer in saved.layers:
        unpack(layer, tree, found)
        layer.unlink()
    write_environment(tree, saved.environment)
    record.write_text("".join(settle(tree, found)))


if __name__ == "__main__":
    sys.exit(guarded(main))
