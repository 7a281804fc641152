"""Unpack an image of a registry without an engine, and record who owns its files.

Usage: python -m lumicontainer.build.runtimes.unpack_image IMAGE TREE RECORD FOLDER PLAIN [TRUST]

FOLDER gets the downloaded layers; PLAIN is ``http`` for a registry without https. RECORD gets the
owners by inode, as ``build.tree.owners`` writes them.
"""

import copy
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.host.registry import save_image
from lumicontainer.image import variables as image_variables
from lumicontainer.system import budget, process
from lumicontainer.system.files.no_links import is_folder, remove
from lumicontainer.system.os_errors import guarded

_GONE, _EMPTIED = ".wh.", ".wh..wh..opq"
_ZSTD = b"\x28\xb5\x2f\xfd"
"""The first bytes of a file compressed with Zstandard (RFC 8878)."""
Members = dict[str, tarfile.TarInfo]


def unpack(layer: Path, tree: Path, found: Members) -> None:
    """Unpack one layer over those below; ``found`` gets the last member of each path.

    Raises ``InputError`` if a path of the layer leads out of the tree.
    """
    tree = tree.resolve()
    _decompress(layer)
    with tarfile.open(layer) as archive:
        archive.extraction_filter = lambda each, _: each  # Paths are checked here.
        members = [(each, _path(each.name)) for each in archive]
        # They apply to lower layers only (layer.md of the OCI image specification).
        for path in (path for _, path in members if path.name.startswith(_GONE)):
            _remove_below(tree, path, found)
        for member, path in members:
            if path.name.startswith(_GONE):
                continue
            if member.isdir() and not path.parts:
                found["."] = member
            elif not member.isdev():
                there = _place(tree, path)
                if not (member.isdir() and is_folder(there)):
                    _remove(tree, there, found)
                _extract(archive, member, tree, there)
                found[str(there.relative_to(tree))] = member


def _decompress(layer: Path) -> None:
    """Replace a layer that tarfile cannot read before Python 3.14 by the archive in it."""
    with layer.open("rb") as file:
        if file.read(len(_ZSTD)) != _ZSTD:
            return
    if process.find("zstd") is None:
        what = "cannot unpack a layer of the image: zstd not found"
        raise HostError(Problem(what, hint="install the package zstd"))
    archive = layer.with_suffix(".unpacked")
    words = ["--decompress", "--quiet", "--long=31", "-o", str(archive), str(layer)]
    process.capture(["zstd", *words], limits=budget.FILES)
    archive.replace(layer)


def _path(name: str) -> PurePosixPath:
    """Return a path of an image from its root, however an archive writes it."""
    return PurePosixPath(name.lstrip("/"))


def _place(tree: Path, path: PurePosixPath) -> Path:
    """Return where a path lies in the tree, which has no link on the way; it may be one itself."""
    there = tree / path
    try:
        folder = there.parent.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # A loop of links, or a zero byte.
        raise InputError(Problem("a path of the image cannot be followed", str(there))) from error
    if ".." in path.parts or not folder.is_relative_to(tree):
        raise InputError(Problem("a path of the image leads out of its tree", str(there)))
    return folder / path.name


def _remove_below(tree: Path, path: PurePosixPath, found: Members) -> None:
    """Remove what the mark ``path`` of a layer means."""
    gone = path.parent / path.name.removeprefix(_GONE)
    there = _place(tree, path if path.name == _EMPTIED else gone)
    if there.parent.is_dir():
        for each in list(there.parent.iterdir()) if path.name == _EMPTIED else [there]:
            _remove(tree, each, found)


def _remove(tree: Path, there: Path, found: Members) -> None:
    path = str(there.relative_to(tree))
    if is_folder(there):
        for each in [each for each in found if each.startswith(f"{path}/")]:
            del found[each]
    found.pop(path, None)
    remove(there)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, tree: Path, there: Path) -> None:
    if member.islnk():
        # By tarfile, the mode of a link to a link would become that of the file there.
        there.parent.mkdir(parents=True, exist_ok=True)
        os.link(_place(tree, _path(member.linkname)), there, follow_symlinks=False)
        return
    opened = copy.copy(member)
    opened.name = str(there.relative_to(tree))
    # The modes of the image follow when all is there.
    opened.mode = 0o755 if member.isdir() else 0o644
    archive.extract(opened, tree)


def settle(tree: Path, found: Members) -> Iterator[str]:
    """Set the modes of the unpacked paths; yield the rows of the record."""
    tree = tree.resolve()
    for path, member in sorted(found.items(), reverse=True):
        there = tree / path
        if there.parent.resolve() != there.parent or not os.path.lexists(there):
            continue
        if not there.is_symlink() and not member.islnk():
            there.chmod(member.mode & 0o7777)
        if (member.uid or member.gid) and not member.islnk():
            yield f"{there.lstat().st_ino} {member.uid} {member.gid}\n"


def write_environment(tree: Path, variables: Iterable[str]) -> None:
    """Write the image's variables where engines write them and look for them."""
    tree = tree.resolve()
    file = _place(tree, _path(image_variables.PLACE))
    file.parent.mkdir(parents=True, exist_ok=True)
    remove(file)
    file.write_text(image_variables.script(variables))
    file.chmod(0o755)
    resolver = _place(tree, _path("etc/resolv.conf"))
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
