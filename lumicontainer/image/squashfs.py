"""Pack file trees, and write image files from the squashfs of their layers."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.core.plan.plan import EPOCH
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.image import sif
from lumicontainer.system import process
from lumicontainer.system.files.write import sync
from lumicontainer.system.user_namespaces import namespace_command

# Blocks of 1 MiB pack a tree of PyTorch in 6 s, blocks of 128 KiB in 10 s, and the engines' default
# gzip in 82 s, at about the same size (tests/bench). Level 3 of gzip takes a seventh of the time of
# its default 9 for 8 % more bytes.
_COMPRESSION = {
    "zstd": ("-comp", "zstd", "-Xcompression-level", "3", "-b", "1M"),
    "gzip": ("-comp", "gzip", "-Xcompression-level", "3", "-b", "1M"),
}
_PIECE = 8 << 20

Reached = Callable[[int, int], None]


def squash_command(
    tree: Path, target: Path, offset: int = 0, compression: str = "zstd"
) -> list[str]:
    """Return the command that packs ``tree`` into ``target`` at the byte ``offset``.

    All times are equal. Extended attributes are omitted: containers ignore capabilities of files,
    and other attributes belong to the host's file system.
    """
    return [*namespace_command(), *_squash(tree, target, offset, compression)]


def squash_here(tree: Path, target: Path) -> None:
    """Pack ``tree`` in the current user namespace; mksquashfs prints to our stdout."""
    process.run(_squash(tree, target, 0, "zstd"))


def _squash(tree: Path, target: Path, offset: int, compression: str) -> list[str]:
    program = process.find("mksquashfs")
    if program is None:
        hint = "install the package squashfs-tools"
        raise HostError(Problem("cannot pack images: mksquashfs not found", hint=hint))
    options = ["-noappend", "-quiet", "-progress", "-offset", str(offset)]
    options += [*_COMPRESSION[compression], "-no-xattrs"]
    options += ["-all-time", str(EPOCH), "-mkfs-time", str(EPOCH)]
    return [str(program), str(tree), str(target), *options]


def without_epoch(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment in which mksquashfs uses its options for times."""
    return {name: value for name, value in environment.items() if name != "SOURCE_DATE_EPOCH"}


class Packed(NamedTuple):
    """Hold one squashfs file and its sha256."""

    path: Path
    sha256: str


def join(
    layers: Sequence[Packed], metadata: bytes, target: Path, plan: sif.Layout, *, reached: Reached
) -> None:
    """Write an image of squashfs layers, the lowest first, with the squashfs ``metadata`` on top.

    It records the given digests, so that no layer is read twice. Raises ``InputError`` if there are
    more layers than an image file can hold.
    """
    if len(layers) >= sif.MAX_PARTITIONS:
        raise InputError(
            Problem(
                f"an image file holds at most {sif.MAX_PARTITIONS} layers",
                str(target),
                why=f"there are {len(layers) + 1}",
                hint="use --pack flat",
            )
        )
    sizes = [layer.path.stat().st_size for layer in layers]
    total, done, partitions = sum(sizes), 0, []
    with target.open("r+b") as file:
        offset = plan.offset
        for layer, whole in zip(layers, sizes, strict=True):
            file.truncate(offset)
            file.seek(offset)
            for size in _copy(layer.path, file.fileno()):
                done += size
                reached(done, total)
            partitions.append(sif.Partition(offset, whole, layer.sha256))
            offset = sif.align(offset + whole)
        file.truncate(offset)
        file.seek(offset)
        file.write(metadata)
        partitions.append(sif.Partition(offset, len(metadata)))
        file.truncate(sif.align(offset + len(metadata)))
    complete(target, plan, partitions)


def _copy(source: Path, target: int) -> Iterator[int]:
    """Copy a file to the current position of a descriptor; yield the size of each piece."""
    with source.open("rb") as file:
        while size := _copy_piece(file.fileno(), target):
            yield size


def _copy_piece(source: int, target: int) -> int:
    """Copy a piece between two descriptors; share its blocks if the file system can."""
    try:
        return os.copy_file_range(source, target, _PIECE)
    except OSError as error:
        # The file systems differ, or do not support the call.
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    return os.sendfile(target, source, None, _PIECE)


def complete(target: Path, plan: sif.Layout, partitions: Sequence[sif.Partition]) -> None:
    """Write the head of an image, make it executable, and flush it to the disk."""
    sif.complete(target, plan, partitions)
    umask = os.umask(0)
    os.umask(umask)
    target.chmod(0o777 & ~umask)
    sync(target)
