"""Write the files of an image as tar archives, one for each of its layers, for OCI images.

An archive has the files whose data one layer brought, with the folders above them. The last one has
all folders, and what has no data: links, empty files, devices. So a link that another layer adds
changes the last archive alone. No archive removes or replaces what another one has.
"""

import tarfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from lumicontainer.errors import InputError, Problem
from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.content import read_fragment, read_pieces
from lumicontainer.image.assembly.layout import FILE, FOLDER, LINK, NOTHING
from lumicontainer.image.assembly.reader import Squashfs
from lumicontainer.image.assembly.tree import Node
from lumicontainer.system import budget

MOST = 100
"""The most archives of an image; Docker mounts at most 127 layers."""
_REMOVAL = b".wh."
"""The names that begin with it remove others (OCI image specification, "Whiteouts")."""
_KEPT = 64
"""The fragments that are in the memory: files in one folder have their ends in few."""
_TYPES = {
    FILE: tarfile.REGTYPE,
    FOLDER: tarfile.DIRTYPE,
    LINK: tarfile.SYMTYPE,
    layout.BLOCK: tarfile.BLKTYPE,
    layout.CHARACTER: tarfile.CHRTYPE,
    layout.PIPE: tarfile.FIFOTYPE,
}


class ArchivedFile(NamedTuple):
    """Hold a file of an archive; ``link`` is the path of the same file before it, if any."""

    path: bytes
    node: Node
    link: bytes = b""

    @property
    def size(self) -> int:
        """Return the bytes of its content in the archive."""
        return 0 if self.link or self.node.kind != FILE else self.node.size


Archive = Sequence[ArchivedFile]


def plan_archives(squashfs: Squashfs, bounds: Sequence[int]) -> list[Archive]:
    """Return the archives of a tree; ``bounds`` are the bytes where the data of layers end.

    ``bounds`` count from the start of the squashfs. Raises ``InputError`` for a tree that no such
    archives can have.
    """
    ends = sorted(bounds)[: MOST - 2]
    drafts = [_Draft() for _ in range(len(ends) + 2)]
    folders: dict[bytes, Node] = {}
    for path, node in _walk(squashfs):
        place = _place(squashfs, node)
        draft = drafts[-1] if place is None else drafts[bisect_right(ends, place)]
        draft.add(path, node, folders)
        if node.kind == FOLDER:
            folders[path] = node
    archives: list[Archive] = [draft.members for draft in drafts if draft.members]
    size = sum(member.size for archive in archives for member in archive)
    if size > budget.UNPACKED:
        raise _refused(squashfs, f"its files have {size} bytes, expected at most {budget.UNPACKED}")
    return archives


class _Draft:
    """Collect the members of an archive, each folder before what is in it."""

    def __init__(self) -> None:
        self.members: list[ArchivedFile] = []
        self._paths: dict[int, bytes] = {}
        self._folders: set[bytes] = {b""}

    def add(self, path: bytes, node: Node, folders: Mapping[bytes, Node]) -> None:
        self.members += [ArchivedFile(each, folders[each]) for each in self._missing(path)]
        if node.kind == FOLDER:
            self._folders.add(path)
        first = self._paths.setdefault(id(node), path) if node.kind == FILE else path
        self.members.append(ArchivedFile(path, node, b"" if first == path else first))

    def _missing(self, path: bytes) -> Sequence[bytes]:
        """Return the folders above a path that the archive does not have yet, the highest first."""
        missing = []
        while (path := path.rpartition(b"/")[0]) not in self._folders:
            self._folders.add(path)
            missing.append(path)
        return missing[::-1]


def _walk(squashfs: Squashfs) -> Iterator[tuple[bytes, Node]]:
    """Yield the path and the node of each file, in order; folders come before what is in them."""
    waiting = [(b"", squashfs.root)]
    while waiting:
        path, node = waiting.pop()
        if path:
            yield path, node
        for name, child in sorted(node.children.items(), reverse=True):
            if name.startswith(_REMOVAL):
                raise _refused(squashfs, f"'{name!a:.80}' would remove another file there")
            if child.kind in _TYPES and not child.is_whiteout:
                waiting.append((path + b"/" + name if path else name, child))


def _place(squashfs: Squashfs, node: Node) -> int | None:
    """Return where the data of a node begin; None for a node without data."""
    if node.kind == FILE and any(node.blocks):
        return node.start
    return None if node.fragment == NOTHING else squashfs.fragments[node.fragment].start


def _refused(squashfs: Squashfs, why: str) -> InputError:
    hint = "push it without --format, or with --format sif"
    return InputError(Problem("no OCI image can be made", str(squashfs.path), why, hint))


def read_archive(squashfs: Squashfs, archive: Archive) -> Iterator[bytes]:
    """Yield the bytes of an archive, in pieces; raise ``InputError`` if data are damaged."""
    fragment = lru_cache(_KEPT)(partial(read_fragment, squashfs))
    with squashfs.path.open("rb", buffering=0) as file:
        for member in archive:
            yield _header(member)
            if member.size:
                number = member.node.fragment
                end = b"" if number == NOTHING else fragment(number)
                yield from read_pieces(file.fileno(), squashfs, member.node, end)
                yield bytes(-member.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _header(member: ArchivedFile) -> bytes:
    node = member.node
    info = tarfile.TarInfo(_text(member.path))
    info.type, info.size = _TYPES[node.kind], member.size
    info.mode, info.uid, info.gid, info.mtime = node.mode, node.owner, node.group, node.time
    if member.link:
        info.type, info.linkname = tarfile.LNKTYPE, _text(member.link)
    elif node.kind == LINK:
        info.linkname = _text(node.target)
    # Linux's new_encode_dev: the major number is between two parts of the minor one.
    info.devmajor = node.device >> 8 & 0xFFF
    info.devminor = node.device & 0xFF | node.device >> 12 & 0xFFF00
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
