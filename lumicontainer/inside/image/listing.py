"""Walk the files of an image, and list those of its layers, so that checks need not read each.

The build lists each layer (``of_layer``) and puts the list of all into the image (``FILE``).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..elf import reader
from ..elf.reader import Elf, UnreadableError

MOUNTS = "/proc/self/mountinfo"
SHOWN = "LUMI_VERIFY_MOUNTS"
"""The paths, with colons between them, at which PRoot shows files of the host."""
# Not below /opt/lumicontainer, whose files are sealed before the image is packed.
FILE = ".singularity.d/lumicontainer-files.json"
_LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")


class Walked(NamedTuple):
    """One path of the image; ``mode`` and ``size`` are those of ``lstat``."""

    path: str
    mode: int
    size: int

    def is_file(self) -> bool:
        """Return whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    def is_folder(self) -> bool:
        """Return whether it is a folder, not a link to one."""
        return stat.S_ISDIR(self.mode)


def mounts(table: str = MOUNTS) -> set[str]:
    """Return the mount points, without that of the image itself."""
    with open(table, encoding="utf-8", errors="surrogateescape") as stream:
        # The fifth word of each line, in which a space is \040.
        found = {line.split(" ")[4] for line in stream} - {"/"}
    shown = {path for path in os.environ.get(SHOWN, "").split(":") if path}
    return shown | {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), p) for p in found}


def walk(root: str = "/", hidden: set[str] | None = None) -> Iterator[Walked]:
    """Yield every path below ``root`` except those in ``hidden``, by default the mount points."""
    hidden = mounts() if hidden is None else hidden
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except PermissionError:  # only root may read it
            continue
        for entry in found:
            if entry.path in hidden:
                continue
            info = entry.stat(follow_symlinks=False)
            one = Walked(entry.path, info.st_mode, info.st_size)
            yield one
            if one.is_folder():
                waiting.append(entry.path)


class Row(NamedTuple):
    """One path: its mode and size as in ``lstat``, the target of a link, what the loader reads."""

    mode: int
    size: int
    target: str = ""
    # The data of ``reader.to_plain``, or the reason why the loader would refuse the file.
    elf: Any = None


# Rows by path, without a slash at the start; None for a path that the layer removes.
Layer = Mapping[str, "Row | None"]
# A layer with rows as JSON has them: the first field is the mode, others may be missing.
PlainLayer = Mapping[str, "Sequence[Any] | None"]


def loadable(one: Walked) -> Elf | str | None:
    """Return what the loader reads of a program or library, or why it would refuse the file.

    The result is None for other files. Raises ``OSError`` if the file cannot be opened.
    """
    # To open every other file would take longer than the rest of the check.
    if not one.is_file() or not (one.mode & 0o111 or ".so" in os.path.basename(one.path)):
        return None
    if not one.size:
        folder, name = os.path.split(one.path)
        program = os.path.basename(folder) in ("bin", "sbin") and one.mode & 0o111
        # Elsewhere an empty file may be executable.
        return "it is empty" if program or _LIBRARY.search(name) else None
    with open(one.path, "rb", buffering=0) as stream:
        head = stream.read(len(reader.MAGIC))
    # A copy that broke off may leave zeros; other texts are scripts of the linker.
    if head == bytes(4) and _LIBRARY.search(one.path):
        return "it holds zeros where an ELF file begins"
    if head != reader.MAGIC or one.size < reader.SHORTEST:
        return None
    try:
        return reader.linked(one.path)
    except UnreadableError as error:
        # Code for a GPU is for another processor.
        return None if "another processor" in str(error) else str(error)


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


def dump(layer: PlainLayer) -> str:
    """Return a list as JSON, folders before their files; equal lists give equal text."""
    rows = sorted(layer.items(), key=lambda item: item[0].replace("/", "\0"))
    return json.dumps(dict(rows), separators=(",", ":"))


def load(text: str | bytes) -> Layer:
    """Return the list of ``dump``; raise ValueError or TypeError if it is damaged."""
    return {path: None if row is None else Row(*row) for path, row in json.loads(text).items()}


def merged(layers: Iterable[PlainLayer]) -> PlainLayer:
    """Return the list of all layers together; the lowest comes first."""
    found: dict[str, Sequence[Any] | None] = {}
    for layer in layers:
        # A path that is not a folder any more has nothing below it.
        replaced = tuple(
            f"{path}/"
            for path in found.keys() & layer.keys()
            if _is_folder(found[path]) and not _is_folder(layer[path])
        )
        if replaced:
            found = {path: row for path, row in found.items() if not path.startswith(replaced)}
        found.update(layer)
        for path in [path for path, row in layer.items() if row is None]:
            del found[path]
    return found


def _is_folder(row: Sequence[Any] | None) -> bool:
    return row is not None and stat.S_ISDIR(row[0])


def layers_of_root(table: str = MOUNTS) -> int | None:
    """Return the number of overlays from the image file that make the root with its first part.

    The result is None if the root may have other files: of a folder, or a writable overlay.
    """
    # Apptainer and SingularityCE mount a part of the image file as ``overlay-images/NUMBER``, as
    # they do a user's overlay, which so adds to the number.
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
