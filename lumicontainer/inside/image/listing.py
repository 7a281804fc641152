"""List the files of an image's layers, so that checks need not read each of them.

The build lists each layer (``of_layer``) and puts the list of all into the image (``FILE``).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..elf import reader
from ..elf.reader import Elf, UnreadableError
from .files import MOUNTS, Walked, walk

FILE = ".singularity.d/lumicontainer-files.json"
"""Not below /opt/lumicontainer, whose files are sealed before the image is packed."""
_LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")
_PROGRAMS = ("bin", "sbin")
"""Folders of programs: elsewhere an empty file may be executable."""
_OTHER = "another processor"
"""The reader says so of a file for another processor, such as code for a GPU."""
_SHORTEST = 64
"""Bytes of an ELF file's header."""
_MAGIC = b"\x7fELF"


class Row(NamedTuple):
    """One path: its mode and size as in ``lstat``, the target of a link, what the loader reads."""

    mode: int
    size: int
    target: str = ""
    elf: Any = None
    """The data of ``reader.to_plain``, or the reason why the loader would refuse the file."""


Layer = Mapping[str, "Row | None"]
"""Rows by path, without a slash at the start; None for a path that the layer removes."""


def loadable(one: Walked) -> Elf | str | None:
    """Return what the loader reads of a program or library, or why it would refuse the file.

    The result is None for other files. Raises ``OSError`` if the file cannot be opened.
    """
    # To open every other file would take longer than the rest of the check.
    if not one.is_file() or not (one.mode & 0o111 or ".so" in os.path.basename(one.path)):
        return None
    if not one.size:
        return _empty(one)
    with open(one.path, "rb", buffering=0) as stream:
        head = stream.read(len(_MAGIC))
    # A copy that broke off may leave zeros; other texts are scripts of the linker.
    if head == bytes(4) and _LIBRARY.search(one.path):
        return "it holds zeros where an ELF file begins"
    if head != _MAGIC or one.size < _SHORTEST:
        return None
    try:
        return reader.linked(one.path)
    except UnreadableError as error:
        return None if _OTHER in str(error) else str(error)


def _empty(one: Walked) -> str | None:
    folder, name = os.path.split(one.path)
    program = os.path.basename(folder) in _PROGRAMS and one.mode & 0o111
    return "it is empty" if program or _LIBRARY.search(name) else None


def of_layer(folder: str) -> Layer:
    """List an unpacked layer, in which a character device 0/0 removes a path."""
    return {one.path[len(folder) + 1 :]: _row(one) for one in walk(folder, set())}


def _row(one: Walked) -> Row | None:
    if stat.S_ISCHR(one.mode) and not os.lstat(one.path).st_rdev:
        return None
    target = os.readlink(one.path) if stat.S_ISLNK(one.mode) else ""
    elf = loadable(one)
    plain = reader.to_plain(elf) if isinstance(elf, Elf) else elf
    return Row(one.mode, 0 if one.is_folder() else one.size, target, plain)


def dump(layer: Layer) -> str:
    """Return a list as JSON, folders before their files; equal lists give equal text."""
    rows = sorted(layer.items(), key=lambda item: item[0].replace("/", "\0"))
    return json.dumps({path: _short(row) for path, row in rows}, separators=(",", ":"))


def _short(row: Row | None) -> Sequence[Any] | None:
    if row is None or row.elf is not None:
        return row
    return row[:3] if row.target else row[:2]


def load(text: str | bytes) -> Layer:
    """Return the list of ``dump``; raise ValueError or TypeError if it is damaged."""
    return {path: None if row is None else Row(*row) for path, row in json.loads(text).items()}


def merged(layers: Iterable[Layer]) -> Layer:
    """Return the list of all layers together; the lowest comes first."""
    found: dict[str, Row] = {}
    for layer in layers:
        # A path that is not a folder any more has nothing below it.
        replaced = tuple(
            f"{path}/"
            for path, row in layer.items()
            if path in found and stat.S_ISDIR(found[path].mode) and not _is_folder(row)
        )
        if replaced:
            found = {path: row for path, row in found.items() if not path.startswith(replaced)}
        for path, row in layer.items():
            if row is None:
                found.pop(path, None)
            else:
                found[path] = row
    return found


def _is_folder(row: Row | None) -> bool:
    return row is not None and stat.S_ISDIR(row.mode)


def layers_of_root(table: str = MOUNTS) -> int | None:
    """Return the number of overlays from the image file that make the root with its first part.

    The result is None if the root may have files of anything else: of a folder, or of an overlay
    that can be written to. Apptainer and SingularityCE mount a part of the image file as
    ``overlay-images/NUMBER``, as they do a user's overlay, which so adds to the number.
    """
    with open(table, encoding="utf-8", errors="surrogateescape") as stream:
        roots = [line.split() for line in stream if line.split()[4] == "/"]
    if len(roots) != 1:
        return None
    kind, _, options = roots[0][roots[0].index("-") + 1 :]
    lower = [each[9:] for each in options.split(",") if each.startswith("lowerdir=")]
    if kind != "overlay" or len(lower) != 1 or "upperdir" in options:
        return None
    places = [os.path.split(each) for each in lower[0].split(":")]
    images = [name for folder, name in places if os.path.basename(folder) == "overlay-images"]
    own = {name for folder, name in places if os.path.basename(folder) != "overlay-images"}
    return len(images) if own == {"overlay-lowerdir", "rootfs"} else None
