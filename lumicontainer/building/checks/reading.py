"""Digest what checks read of an image, so that a build need not repeat those that passed.

Nothing is unpacked. The content of a file is known by its layer and its place in it.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import NamedTuple

from lumicontainer.constants import HOME
from lumicontainer.core.model import Check
from lumicontainer.image.assembly.content import Files, find_beginning, hash_files
from lumicontainer.image.assembly.layout import FILE, FOLDER
from lumicontainer.image.assembly.memory import garbage_collector_off
from lumicontainer.image.assembly.tree import Node
from lumicontainer.inside.checking import READ_BY_ALL
from lumicontainer.inside.elf.reader import MAGIC

MARK = 16
"""The bytes of the digest of one path."""
_OPEN = 0o005
"""The mode of a folder in which everybody finds files."""


class PackedFiles(NamedTuple):
    """Hold the files of an image, and by what their contents are known."""

    files: Files
    layers: Sequence[str]
    """The names of each layer's bytes, the lowest first; not of the last, with the records."""
    records: Mapping[int, str]
    """The sha256 of each file of the last layer, by the ``id`` of its node."""


class Reading(NamedTuple):
    """Hold what the checks of an image read."""

    digests: Mapping[str, str] = {}
    """By the name of each check that declares it."""
    paths: Mapping[str, bytes] = {}
    """The digest of each path with all that a check can see of it."""


def identify(files: Files, layers: Sequence[str]) -> PackedFiles:
    """Return the files of an image; ``layers`` name the bytes of all its layers but the last.

    The last layer is small, and differs with each label: its files are read.
    """
    last = files.layers[-1]
    return PackedFiles(files, layers, hash_files(last, [n for n in last.files if n.links]))


@garbage_collector_off()
def read_packed(packed: PackedFiles, checks: Iterable[Check]) -> Reading:
    """Return what checks read of an image."""
    declared = {each.name: each.reads for each in checks if each.reads}
    if not declared:
        return Reading()
    nodes = dict(_paths(packed.files))
    marks = dict(zip(nodes, _marks(packed, nodes), strict=True))
    by_all = set(_read_by_all(packed.files, nodes))
    others = nodes.keys() - by_all
    common = hashlib.sha256(b"".join(sorted(marks[path] for path in by_all)))
    digests = {}
    for name, patterns in declared.items():
        digest = common.copy()
        digest.update(b"".join(sorted(marks[path] for path in _matching(others, patterns))))
        digests[name] = digest.hexdigest()
    return Reading(digests, marks)


def _paths(files: Files) -> Iterator[tuple[str, Node]]:
    yield "/", files.root
    for above, folder in files.folders():
        for name, node in folder.children.items():
            yield f"{above}/{os.fsdecode(name)}", node


def _marks(packed: PackedFiles, nodes: Mapping[str, Node]) -> Iterator[bytes]:
    """Yield the digest of each path."""
    for path, node in nodes.items():
        content: tuple[object, ...] = (node.target, node.device)
        if node.kind == FILE and node.layer < len(packed.layers):
            place = (node.start, node.blocks, node.fragment, node.fragment_offset)
            content = (packed.layers[node.layer], *place)
        elif node.kind == FILE:
            content = (packed.records[id(node)],)
        text = repr((path, node.kind, node.mode, node.owner, node.group, node.size, *content))
        yield hashlib.blake2b(text.encode(), digest_size=MARK).digest()


def _read_by_all(files: Files, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield the paths that the programs of every check may read."""
    named = set(_matching(nodes, (*READ_BY_ALL, f"{HOME}/*")))
    yield from named
    others = {path: node for path, node in nodes.items() if path not in named}
    programs: set[int] = set()
    for number, layer in enumerate(files.layers[:-1]):
        own = (n for n in others.values() if n.kind == FILE and n.layer == number)
        programs |= find_beginning(layer, own, MAGIC)
    for path, node in others.items():
        plain = node.kind == FILE or (node.kind == FOLDER and node.mode & _OPEN == _OPEN)
        if not plain or id(node) in programs:
            yield path


def _matching(paths: Iterable[str], patterns: Sequence[str]) -> Iterator[str]:
    return filter(re.compile("|".join(map(translate, patterns))).fullmatch, paths)
