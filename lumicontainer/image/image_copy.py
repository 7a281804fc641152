"""Copy the data of an image into a new one while its packages are chosen and installed."""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from lumicontainer.image import digests, sif
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.image.assembly.tree import Node
from lumicontainer.image.squashfs import Describe, ImageWriter
from lumicontainer.system.terminal.progress import Progress


class _StoppedError(Exception):
    """End the copy: nobody waits for it."""


class ImageCopy:
    """Write an image of another one and of a layer that comes later; use it in a ``with`` block.

    A thread copies the data of the image from ``begin`` on. It ends soon if the block is left.
    """

    def __init__(self, image: Path, draft: Path, progress: Progress) -> None:
        self._image, self._draft, self._progress = image, draft, progress
        self._stopped, self._open = threading.Event(), ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(self, plan: sif.Layout, replaced: Iterable[str]) -> None:
        """Begin to copy the data but those at the paths that the layer replaces."""
        place = sif.root(self._image)
        writer = ImageWriter(self._draft, plan, partial(self._advance, place.size))
        self._writer = self._open.enter_context(writer)
        thread = self._open.enter_context(ThreadPoolExecutor(1))
        self._open.callback(self._stopped.set)
        self._tables = thread.submit(read_squashfs, self._image, place.offset, size=place.size)
        self._copied = thread.submit(self._copy, list(replaced))

    @property
    def root(self) -> Node:
        """Return the tree of the image; raise ``InputError`` if its tables are damaged."""
        return self._tables.result().root

    def finish(self, layer: Path, describe: Describe = lambda *_: {}) -> None:
        """Add the layer when all is copied, and complete the image; raise what the copy raised."""
        self._copied.result()
        self._writer.finish([read_squashfs(layer, number=1)], describe)

    def _copy(self, replaced: list[str]) -> None:
        with self._progress.work("copy the image") as self._task:
            recorded = digests.recorded_parts(self._image)
            self._writer.begin(self._tables.result(), replaced, recorded)

    def _advance(self, total: int, copied: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._task.reached(min(copied, total), total)
