"""Pack file trees, and write image files from the squashfs of their layers."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeAlias

from lumicontainer.constants import EPOCH
from lumicontainer.errors import HostError, Problem, SpaceError
from lumicontainer.image import sif
from lumicontainer.image.assembly.assemble import Assembly, Move, Reached, Source
from lumicontainer.image.assembly.content import Files
from lumicontainer.image.assembly.layout import ZSTD
from lumicontainer.image.assembly.reader import Squashfs, read_superblock
from lumicontainer.image.digests import Part
from lumicontainer.system import process
from lumicontainer.system.os_errors import FULL

# A small file is read with the whole block that holds it. Importing PyTorch, Transformers,
# Lightning and DeepSpeed costs squashfuse 3.4 s of processor time from blocks of 1 MiB, and 1.4 s
# from blocks of 128 KiB in an image 10 % larger (zstd; of gzip 2 % larger, and 19 s against 11 s
# in all). Level 3 of gzip takes a seventh of the time of its default 9 for 8 % more bytes.
BLOCK_SIZE = 128 << 10
Describe: TypeAlias = Callable[[Files, Sequence[Part]], Mapping[str, bytes]]
"""Returns, by name, the objects that describe an image of these files and parts."""


def squash_command(
    tree: Path, target: Path, compression: str = "zstd", block_size: int = BLOCK_SIZE
) -> list[str]:
    """Return the command that packs ``tree`` into ``target``.

    All times are equal. Tables are not compressed, because images get others. Extended
    attributes are omitted: containers ignore capabilities of files, and other attributes belong to
    the host's file system.
    """
    program = process.find("mksquashfs")
    if program is None:
        hint = "install the package squashfs-tools"
        raise HostError(Problem("cannot pack images: mksquashfs not found", hint=hint))
    options = ["-noappend", "-quiet", "-progress", "-noI"]
    options += ["-comp", compression, "-Xcompression-level", "3", "-b", str(block_size)]
    options += ["-no-xattrs", "-all-time", str(EPOCH), "-mkfs-time", str(EPOCH)]
    return [str(program), str(tree), str(target), *options]


class ImageWriter:
    """Write an executable image of layers; use it in a ``with`` block.

    The image is not flushed to the disk. ``reached`` gets the number of bytes copied so far.
    """

    def __init__(self, target: Path, plan: sif.Layout, reached: Reached = lambda _: None) -> None:
        self._target, self._plan, self._reached = target, plan, reached
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._hashing = self._open.enter_context(sif.hash_root(self._target, self._plan))
        self._file = self._open.enter_context(self._target.open("r+b"))
        place, bound = self._plan.offset, self._hashing.end_part
        self._assembly = Assembly(self._file, place, EPOCH, self._advance, bound)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(
        self, lowest: Squashfs, replaced: Iterable[str], recorded: Sequence[Part] = ()
    ) -> None:
        """Copy the data of the lowest layer before the others exist: see ``Assembly.begin``.

        ``recorded`` are the parts of the image that has it.
        """

        def keep(moves: Sequence[Move]) -> None:
            to = self._plan.offset
            self._hashing.keep(
                recorded, [(lowest.offset + m.begin, to + m.place, m.size) for m in moves]
            )

        self._assembly.begin(lowest, replaced, keep)

    def finish(self, layers: Sequence[Squashfs], describe: Describe = lambda *_: {}) -> Files:
        """Add the other layers, the lowest first, and complete the image; return its files."""
        size = self._assembly.finish(layers)
        self._file.flush()
        parts, files = self._hashing.finish(size), self._assembly.files
        assert files is not None
        sif.complete(self._target, self._plan, parts, describe(files, parts))
        apply_umask(self._target, 0o777)
        return files

    def _advance(self, copied: int) -> None:
        self._hashing.reach(self._plan.offset + copied)
        self._reached(copied)


def write_image(
    sources: Sequence[Source],
    target: Path,
    plan: sif.Layout,
    reached: Reached = lambda _: None,
    describe: Describe = lambda *_: {},
) -> Files:
    """Write an image of layers, the lowest first, and return its files.

    Raises ``InputError`` if a layer is damaged.
    """
    layers = [each.read(number) for number, each in enumerate(sources)]
    with ImageWriter(target, plan, reached) as writer:
        return writer.finish(layers, describe)


def apply_umask(target: Path, mode: int) -> None:
    """Give a temporary file the mode that the umask of the user allows."""
    # os.umask would change it for all threads (proc_pid_status(5)).
    status = Path("/proc/self/status").read_bytes()
    umask = next(line.split()[1] for line in status.splitlines() if line.startswith(b"Umask:"))
    target.chmod(mode & ~int(umask, 8))


def form_of(image: Path) -> tuple[str, int]:
    """Return the compression for a file next to an image, and the size of the image's blocks.

    What runs an image with zstd reads zstd; every engine reads gzip. Raises ``InputError`` for a
    damaged image.
    """
    head = read_superblock(image, sif.root(image).offset)
    return "zstd" if head.compressor == ZSTD else "gzip", head.block_size


def pack_as_root(tree: Path, target: Path, compression: str, block_size: int = BLOCK_SIZE) -> None:
    """Pack a tree of one user as one of root; raise ``SpaceError`` if the disk is full.

    It needs no namespace. All files can be read by everybody.
    """
    command = [*squash_command(tree, target, compression, block_size), "-all-root"]
    command += ["-no-progress", "-action", "chmod(a+rX)@true"]  # The umask may hide them.
    pack(command, target)
    apply_umask(target, 0o666)


def pack(command: Sequence[str], target: Path) -> None:
    """Run a command of mksquashfs that writes ``target``; raise ``SpaceError`` if it is full."""
    # mksquashfs refuses the variable together with its options for times.
    own = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = process.in_new_session(command, env=own)
    if done.returncode:
        error = process.ProgramError(["mksquashfs"], done.returncode, done.stderr)
        if any(word in done.stderr for word in FULL):
            problem = error.problems[0]._replace(where=str(target.parent), hint="free some space")
            raise SpaceError(problem)
        raise error
