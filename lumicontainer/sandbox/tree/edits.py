"""Change the files of a tree that is not unpacked; the changes become a layer."""

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from lumicontainer.cache.objects import INDEX, LAYER
from lumicontainer.constants import EPOCH
from lumicontainer.image import squashfs
from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.assemble import merge_layers
from lumicontainer.image.assembly.content import read_content
from lumicontainer.image.assembly.layout import FILE, FOLDER, LINK
from lumicontainer.image.assembly.reader import Squashfs
from lumicontainer.image.assembly.tree import Node
from lumicontainer.sandbox.tree import index
from lumicontainer.sandbox.tree.foreign import archive
from lumicontainer.sandbox.tree.foreign.archive import Member
from lumicontainer.sandbox.tree.foreign.refusal import OUT, refusal
from lumicontainer.sandbox.tree.foreign.tree import GONE as REMOVED
from lumicontainer.sandbox.tree.index import GONE, Row
from lumicontainer.sandbox.tree.without_root import pseudo_options
from lumicontainer.system.terminal import masking

_MOST_LINKS = 40
"""The links that Linux follows in one path (path_resolution(7))."""
_LARGEST = 256 << 20
"""Bytes of a file that is read into the memory."""
Names = tuple[bytes, ...]


_TYPES = {
    FILE: stat.S_IFREG,
    FOLDER: stat.S_IFDIR,
    LINK: stat.S_IFLNK,
    layout.BLOCK: stat.S_IFBLK,
    layout.CHARACTER: stat.S_IFCHR,
    layout.PIPE: stat.S_IFIFO,
    layout.SOCKET: stat.S_IFSOCK,
}


class Seen(NamedTuple):
    """Hold the mode and the size of a path, as stat(2) names them."""

    st_mode: int
    st_size: int


class Located(NamedTuple):
    """Hold where a path leads: its names from the root, without links, and its node if any."""

    names: Names
    node: Node | None

    @property
    def path(self) -> str:
        """Return the path without a leading slash."""
        return os.fsdecode(b"/".join(self.names))


class Edits:
    """Hold the merged tree of layers, and what changes in it.

    Paths are resolved as in a container: links of folders are followed, the last name is not.
    Raises ``InputError`` for a path that a link leads in a circle, or that goes through a file.
    """

    def __init__(self, layers: Sequence[Squashfs]) -> None:
        self.root = merge_layers(layers)
        self._layers = layers
        self._rows: dict[str, Row] = {}
        self._contents: dict[str, bytes] = {}
        self._hidden: dict[str, set[str]] = {}
        """Paths of the layers that are removed or replaced, with the names in those folders."""
        self._own: set[int] = set()
        """The nodes that are no layer's."""

    def find(self, path: str, *, follow: bool = False) -> Located:
        """Return where a path leads; with ``follow`` also through a link at its end."""
        waiting, at, links = os.fsencode(path).split(b"/")[::-1], list[tuple[bytes, Node]](), 0
        while waiting:
            name, here = waiting.pop(), at[-1][1] if at else self.root
            if name in (b"", b"."):
                continue
            if name == b"..":
                del at[-1:]
                continue
            node = here.children.get(name)
            if node is None:
                rest = [name, *(each for each in waiting[::-1] if each not in (b"", b"."))]
                if here.kind != FOLDER or b".." in rest:
                    raise refusal(path, OUT)
                return Located((*(each for each, _ in at), *rest), None)
            if node.kind == LINK and (follow or waiting):
                links += 1
                if links > _MOST_LINKS:
                    raise refusal(path, "links lead to each other")
                at = [] if node.target.startswith(b"/") else at
                waiting += node.target.split(b"/")[::-1]
            else:
                at.append((name, node))
        return Located(tuple(name for name, _ in at), at[-1][1] if at else self.root)

    def look(self, path: str) -> Seen | None:
        """Return what is at a path; None if it is missing."""
        node = self.find(path).node
        return Seen(mode_of(node), node.size) if node else None

    def add(self, member: Member, content: bytes) -> None:
        """Add a file or a folder, or remove what a member marks as gone."""
        folder, _, name = f"/{member.name}".rpartition("/")
        if name.startswith(REMOVED):
            self.remove(f"{folder}/{name.removeprefix(REMOVED)}")
        elif member.kind == archive.FOLDER:
            self.make_folder(member.name, member.mode)
        else:
            self.write(member.name, content, member.mode)

    def read(self, path: str) -> bytes | None:
        """Return the content of a regular file; None for other paths."""
        entry = self.find(path)
        if entry.node is None or entry.node.kind != FILE:
            return None
        if entry.path in self._contents:
            return self._contents[entry.path]
        return read_content(self._layers[entry.node.layer], entry.node, _LARGEST)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that a pattern of the shell matches; only its last name has letters."""
        folder, _, last = pattern.rpartition("/")
        entry = self.find(folder, follow=True)
        names = sorted(entry.node.children) if entry.node else ()
        matching = (name for name in map(os.fsdecode, names) if fnmatchcase(name, last))
        shown = (name for name in matching if not name.startswith("."))
        return [f"{folder}/{name}" for name in shown]

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file of root in place of what is there."""
        node = Node(FILE, mode, 0, 0, EPOCH, size=len(content))
        row = Row(index.FILE, mode, what=hashlib.sha256(content).hexdigest())
        self._contents[self._put(path, node, row)] = content

    def link(self, path: str, target: str) -> None:
        """Make a symlink in place of what is there."""
        node = Node(LINK, 0o777, 0, 0, EPOCH, target=os.fsencode(target))
        self._put(path, node, Row(index.SYMLINK, 0o777, what=target))

    def make_folder(self, path: str, mode: int = 0o755) -> None:
        """Make a folder and its parents, in place of what is there unless that is a folder."""
        entry = self.find(path)
        if entry.node is None or entry.node.kind != FOLDER:
            self._put(path, Node(FOLDER, mode, 0, 0, EPOCH), Row(index.FOLDER, mode))

    def set_mode(self, path: str, mode: int) -> None:
        """Give a file of the layers another mode; a hard link becomes a separate file."""
        entry = self.find(path)
        assert entry.node is not None
        node, content = entry.node, self.read(path)
        assert content is not None
        self.write(path, content, mode)
        row = self._rows[entry.path]
        self._rows[entry.path] = row._replace(uid=node.owner, gid=node.group)

    def leaking(self) -> list[str]:
        """Return the paths of new files that contain a secret."""
        return [f"/{path}" for path, each in self._contents.items() if masking.holds(each)]

    def remove(self, path: str) -> None:
        """Remove a path of any kind, if it exists."""
        entry = self.find(path)
        if entry.node is None or not entry.names:
            return
        above = self._folder(entry.names[:-1], path)
        self._hide(entry)
        del above.children[entry.names[-1]]
        if entry.path in self._hidden:
            self._rows[entry.path] = Row(GONE)

    def layer_rows(self) -> dict[str, Row]:
        """Return the index of the layer: the changes, and the folders above them."""
        rows = dict(self._rows)
        for path in list(rows):
            names = os.fsencode(path).split(b"/")
            here = self.root
            for count, name in enumerate(names[:-1], 1):
                here = here.children[name]
                above = os.fsdecode(b"/".join(names[:count]))
                rows.setdefault(above, Row(index.FOLDER, here.mode, here.owner, here.group))
        return rows

    def write_layer(self, draft: Path, upper: Path) -> None:
        """Write the layer and its index; ``upper`` is a new folder for its files."""
        rows = self.layer_rows()
        index.write_index(draft / INDEX, rows)
        _stage(upper, rows, self._contents)
        with pseudo_options(upper, rows, {path: row.mode for path, row in rows.items()}) as options:
            command = [*squashfs.squash_command(upper, draft / LAYER), "-no-progress", *options]
            squashfs.pack(command, draft / LAYER)

    def _put(self, path: str, node: Node, row: Row) -> str:
        """Put a node in place of what is there; return its path without links."""
        entry = self.find(path)
        above = self._folder(entry.names[:-1], path)
        if entry.node:
            self._hide(entry)
        self._own.add(id(node))
        above.children[entry.names[-1]] = node
        self._rows[entry.path] = row
        if node.kind == FOLDER:  # It would show the files of a folder of the layers.
            gone = self._hidden.get(entry.path, ())
            self._rows |= {f"{entry.path}/{name}": Row(GONE) for name in gone}
        return entry.path

    def _folder(self, names: Names, path: str) -> Node:
        """Return the folder of some names; make what is missing."""
        here = self.root
        for count, name in enumerate(names, 1):
            if name not in here.children:
                made = Node(FOLDER, 0o755, 0, 0, EPOCH)
                here.children[name] = made
                self._own.add(id(made))
                self._rows[os.fsdecode(b"/".join(names[:count]))] = Row(index.FOLDER, 0o755)
            here = here.children[name]
            if here.kind != FOLDER:
                raise refusal(path, OUT)
        return here

    def _hide(self, entry: Located) -> None:
        """Drop the changes at a path and below it, and note what the layers have there."""
        assert entry.node is not None
        path, below = entry.path, f"{entry.path}/"
        for each in [each for each in self._rows if each == path or each.startswith(below)]:
            del self._rows[each]
            self._contents.pop(each, None)
        if id(entry.node) not in self._own:
            removed = {each[len(below) :] for each in self._hidden if each.startswith(below)}
            names = {os.fsdecode(name) for name in entry.node.children}
            self._hidden[path] = names | {each.partition("/")[0] for each in removed}


def mode_of(node: Node) -> int:
    """Return the mode of a node with its kind, as stat(2) has it."""
    return _TYPES[node.kind] | node.mode


def _stage(upper: Path, rows: Mapping[str, Row], contents: Mapping[str, bytes]) -> None:
    """Write the files of a layer below a new folder; its removals are not there."""
    upper.mkdir()
    upper.chmod(0o755)
    for path, row in sorted(rows.items()):
        if row.kind == index.FOLDER:
            (upper / path).mkdir()
        elif row.kind == index.SYMLINK:
            (upper / path).symlink_to(row.what)
        elif row.kind == index.FILE:
            (upper / path).write_bytes(contents[path])
