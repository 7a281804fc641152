"""Make a base of an image file whose data stay as they are: what changes in its tree is a layer."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lumicontainer.core.plan.base import REMOVED
from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.content import hash_files
from lumicontainer.image.assembly.layout import FILE, FOLDER, LINK
from lumicontainer.image.assembly.reader import Squashfs
from lumicontainer.image.assembly.tree import Node
from lumicontainer.sandbox.tree import index
from lumicontainer.sandbox.tree.edits import Edits, mode_of
from lumicontainer.sandbox.tree.foreign.layer import Allowance
from lumicontainer.sandbox.tree.foreign.refusal import refusal
from lumicontainer.sandbox.tree.foreign.settle import BASE_MODES, list_unusual_modes, own_layer
from lumicontainer.sandbox.tree.foreign.tree import GONE, MOST_MEMBERS, require_path
from lumicontainer.sandbox.tree.index import Row

BASE_ENVIRONMENT = "base-environment.sh"
"""The variables of a base that is an image file, in its folder .singularity.d: read first."""
_KEPT = (FILE, FOLDER, LINK)
"""Devices, pipes and sockets are not for an image."""
_METADATA = ("Singularity", "labels.json", "bootstrap_history")
"""They name the host and the time of the base's build; the image gets its own."""
_EXTENSIBLE = b"lumicontainer extend"
"""In the files by which pip refuses packages in an image of ours (inside.image.extensible)."""


def base_edits(layer: Squashfs) -> Edits:
    """Return what changes in the tree of an image file that becomes a base.

    Raises ``InputError`` if an engine or a step would follow a path of it out of the image.
    """
    _require_allowed(layer)
    special = [path for path, node in walk_tree(layer.root) if node.kind not in _KEPT]
    edits = Edits([layer])
    for path in special:
        edits.remove(path)
    for member, content in own_layer(edits):
        edits.add(member, content)
    _keep_environment(edits)
    for name in _METADATA:
        edits.remove(f".singularity.d/{name}")
    _let_pip_install(edits)
    for pattern in REMOVED:
        for path in edits.glob(pattern):
            edits.remove(path)
    modes = ((path, mode_of(node)) for path, node in walk_tree(layer.root))
    edits.write(BASE_MODES, list_unusual_modes(modes))
    return edits


def _require_allowed(layer: Squashfs) -> None:
    """Raise ``InputError`` for files that are much larger than the image: all are read."""
    Allowance([layer.path]).take(sum(node.size for node in layer.files))


def walk_tree(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield the path and the node of each file; raise ``InputError`` for one no program reads."""
    waiting, count = [(b"", root)], 0
    while waiting:
        above, folder = waiting.pop()
        for name, node in folder.children.items():
            path = above + name
            count += 1
            _require_path(path, name, node, count)
            yield os.fsdecode(path), node
            if node.kind == FOLDER:
                waiting.append((path + b"/", node))


def _require_path(path: bytes, name: bytes, node: Node, count: int) -> None:
    shown = f"/{os.fsdecode(path)}"
    require_path(shown, shown[1:].split("/"))
    if name.startswith(GONE.encode()):
        raise refusal(shown, f"its name begins with {GONE}")
    if node.kind not in _KEPT and b"\n" in path:
        raise refusal(shown, "it is a device, a pipe or a socket with a newline in its name")
    if count > MOST_MEMBERS:
        raise refusal(shown, f"the image has more than {MOST_MEMBERS} files")


def _keep_environment(edits: Edits) -> None:
    """Keep a base's settings apart: the image gets its own file 90-environment.sh."""
    own, kept = ".singularity.d/env/90-environment.sh", f".singularity.d/{BASE_ENVIRONMENT}"
    text = edits.read(own)
    if text is None:
        return
    # The base may itself be an image on an image, and then reads the same file.
    lines = text.splitlines(keepends=True)
    mark = BASE_ENVIRONMENT.encode()
    before = edits.read(kept) or b""
    edits.write(kept, before + b"".join(each for each in lines if mark not in each))


def _let_pip_install(edits: Edits) -> None:
    """Let layers install packages on an image of ours, as ``core.plan.base`` does by a shell."""
    marks = [f"{each}/EXTERNALLY-MANAGED" for each in edits.glob("/usr/lib/python3*")]
    for path in ("/opt/venv/read-only.txt", *marks):
        seen = edits.look(path)
        if seen and stat.S_ISREG(seen.st_mode) and _EXTENSIBLE in (edits.read(path) or b""):
            edits.remove(path)
            if path.startswith("/opt/venv/"):
                edits.remove("/opt/venv/pip.conf")


_KINDS = {FILE: index.FILE, FOLDER: index.FOLDER, LINK: index.SYMLINK}


def read_rows(layer: Squashfs) -> dict[str, Row]:
    """Return the index of an image file's tree: as one of a layer, without its devices."""
    _require_allowed(layer)
    digests = hash_files(layer, layer.files)
    rows: dict[str, Row] = {}
    names: dict[int, list[str]] = {}
    for path, node in walk_tree(layer.root):
        kind = _KINDS.get(node.kind, index.GONE)
        what = digests[id(node)] if node.kind == FILE else ""
        if node.kind == LINK:
            what = str(Path(os.fsdecode(node.target)))  # As the state of a tree has it.
        owner = (node.owner, node.group) if kind != index.GONE else (0, 0)
        rows[path] = Row(kind, node.mode if kind != index.GONE else 0, *owner, what)
        if node.kind == FILE:
            names.setdefault(id(node), []).append(path)
    index.set_links(rows, names.values())
    return rows


def repack_reason(layer: layout.Superblock, block_size: int) -> str:
    """Return why the data of a squashfs cannot be in an image as they are; empty if they can."""
    if layer.compressor not in (layout.GZIP, layout.ZSTD):
        return f"its compression is {layout.NAMES.get(layer.compressor, 'unknown')}"
    if layer.block_size != block_size:
        return f"its blocks have {layer.block_size >> 10} KiB, not {block_size >> 10}"
    return ""
