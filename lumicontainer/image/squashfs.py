"""Pack file trees, and write image files from the squashfs of their layers."""

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.constants import EPOCH
from lumicontainer.errors import HostError, InputError, Problem, SpaceError
from lumicontainer.image import sif
from lumicontainer.system import budget, process
from lumicontainer.system.os_errors import FULL

# A small file is read with the whole block that holds it. Importing PyTorch, Transformers,
# Lightning and DeepSpeed costs squashfuse 3.4 s of processor time from blocks of 1 MiB, and 1.4 s
# from blocks of 128 KiB in an image 10 % larger (zstd; of gzip 2 % larger, and 19 s against 11 s
# in all). Level 3 of gzip takes a seventh of the time of its default 9 for 8 % more bytes.
_BLOCK = "128K"
_PIECE = 8 << 20

Reached = Callable[[int], None]


def squash_command(
    tree: Path, target: Path, offset: int = 0, compression: str = "zstd"
) -> list[str]:
    """Return the command that packs ``tree`` into ``target`` at the byte ``offset``.

    All times are equal. Extended attributes are omitted: containers ignore capabilities of files,
    and other attributes belong to the host's file system.
    """
    program = process.find("mksquashfs")
    if program is None:
        hint = "install the package squashfs-tools"
        raise HostError(Problem("cannot pack images: mksquashfs not found", hint=hint))
    options = ["-noappend", "-quiet", "-progress", "-offset", str(offset)]
    options += ["-comp", compression, "-Xcompression-level", "3", "-b", _BLOCK]
    options += ["-no-xattrs", "-all-time", str(EPOCH), "-mkfs-time", str(EPOCH)]
    return [str(program), str(tree), str(target), *options]


class Packed(NamedTuple):
    """Hold the place of one squashfs in a file, and its sha256 if it is known."""

    path: Path
    size: int
    offset: int = 0
    sha256: str = ""


def require_number(layers: int, target: Path) -> None:
    """Raise ``InputError`` if an image file cannot hold so many layers and one more."""
    if layers >= sif.MAX_PARTITIONS:
        what = f"an image file holds at most {sif.MAX_PARTITIONS} layers"
        why = f"there are {layers + 1}"
        raise InputError(Problem(what, str(target), why, hint="use --pack flat"))


def copy_layers(
    layers: Iterable[Packed], target: Path, offset: int, reached: Reached = lambda _: None
) -> list[sif.Partition]:
    """Copy squashfs layers, the lowest first, into an image from the byte ``offset`` on.

    The partitions get the given digests, so that no layer is read twice. ``reached`` gets the sum
    of the bytes that are copied. Raises ``OSError`` if a layer is shorter than it was.
    """
    done, partitions = 0, []
    with target.open("r+b") as file:
        for layer in layers:
            file.truncate(offset)
            file.seek(offset)
            left = layer.size
            with layer.path.open("rb", buffering=0) as source:
                source.seek(layer.offset)
                while left > 0 and (size := _copy_piece(source.fileno(), file.fileno(), left)):
                    left, done = left - size, done + size
                    reached(done)
            if left > 0:
                raise OSError(errno.EIO, f"the file ends {left} bytes early", str(layer.path))
            partitions.append(sif.Partition(offset, layer.size, layer.sha256))
            offset = sif.align(offset + layer.size)
    return partitions


def _copy_piece(source: int, target: int, most: int) -> int:
    """Copy a piece between two descriptors; share its blocks if the file system can."""
    size = min(most, _PIECE)
    try:
        # Some file systems copy nothing and report no error (copy_file_range(2), BUGS).
        if copied := os.copy_file_range(source, target, size):
            return copied
    except OSError as error:
        # The file systems differ, or do not support the call.
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    return os.sendfile(target, source, None, size)


def complete(target: Path, plan: sif.Layout, partitions: Sequence[sif.Partition]) -> None:
    """Write the head of an image, and make it executable; it is not flushed to the disk."""
    sif.complete(target, plan, partitions)
    _share(target, 0o777)


def _share(target: Path, mode: int) -> None:
    """Give a temporary file the mode that the umask of the user allows."""
    # os.umask would change it for all threads (proc_pid_status(5)).
    status = Path("/proc/self/status").read_bytes()
    umask = next(line.split()[1] for line in status.splitlines() if line.startswith(b"Umask:"))
    target.chmod(mode & ~int(umask, 8))


_NAMES = {1: "gzip", 6: "zstd"}
"""The numbers of compressions in a squashfs (its superblock, bytes 20 and 21)."""


def compression(image: Path) -> str:
    """Return the compression of an image's file system, which its engine can read."""
    place = sif.partitions(image)[0].offset
    with image.open("rb") as file:
        file.seek(place + 20)
        return _NAMES.get(int.from_bytes(file.read(2), "little"), "gzip")


def pack_as_root(tree: Path, target: Path, compression: str) -> None:
    """Pack a tree of one user as one of root; raise ``SpaceError`` if the disk is full.

    It needs no namespace. All files can be read by everybody.
    """
    command = [*squash_command(tree, target, 0, compression), "-all-root"]
    command += ["-no-progress", "-action", "chmod(a+rX)@true"]  # The umask may hide them.
    # mksquashfs refuses the variable beside its options for times.
    own = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = process.finished(command, env=own, limits=budget.FILES)
    if done.returncode:
        error = process.ProgramError(["mksquashfs"], done.returncode, done.stderr)
        if any(word in done.stderr for word in FULL):
            raise SpaceError(error.problems[0]._replace(hint="free some space"))
        raise error
    _share(target, 0o666)
