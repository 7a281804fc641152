"""Push an image: send the blobs that a registry lacks, then the manifest that names all."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

from lumicontainer.image import digests
from lumicontainer.registry.artifacts import CONFIG, write_manifest
from lumicontainer.registry.cutting import CutImage, Piece, Range, cut_ranges, digest_of_bytes
from lumicontainer.registry.referrers import attach_bill
from lumicontainer.registry.remote_image import RemoteImage, Upload, content_of
from lumicontainer.registry.transfers import Transfers
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.terminal.progress import Progress

_READ = 8 << 20


class Pushed(NamedTuple):
    """Hold the digest of an image in a registry, and what was sent of it."""

    digest: str
    size: int
    blobs: int
    sent: int
    sent_blobs: int


def push_image(
    image: Path,
    repository: RemoteImage,
    progress: Progress,
    *,
    whole: bool,
    bill: bytes = b"",
    layers: Sequence[str] = (),
) -> Pushed:
    """Push an image under its tag, as one blob if ``whole``, and attach its bill of materials.

    ``layers`` are the sha256 of those that it was assembled of, by which a pull finds their data.
    Raises ``OSError``, ``ValueError`` and ``HTTPException``.
    """
    with open_regular(image) as stream, progress.step("push") as task:
        file = stream.fileno()
        size = os.fstat(file).st_size
        with Transfers(size, task.reached) as transfers:
            sha256 = transfers.start(_hash_whole, file, size, transfers)
            # A push that was broken off has sent the first blob before all others.
            first, *others = [(0, size)] if whole else cut_ranges(file)
            sent = [_send(file, first, repository, transfers, is_new=False)]
            is_new = sent[0].moved and not repository.has_tags()
            started = [
                transfers.start(_send, file, each, repository, transfers, is_new=is_new)
                for each in others
            ]
            sent += [each.result() for each in started]
            cut = CutImage(tuple(each.piece for each in sent), size, sha256.result())
        manifest = write_manifest(cut, image.name, whole=whole, layers=layers)
        repository.send_missing(content_of(CONFIG))
        repository.put_manifest(manifest)
        if bill:
            attach_bill(bill, repository, manifest)
    moved = [each.piece.size for each in sent if each.moved]
    return Pushed(digest_of_bytes(manifest), size, len(sent), sum(moved), len(moved))


class _Sent(NamedTuple):
    piece: Piece
    moved: bool


def _send(
    file: int, place: Range, repository: RemoteImage, transfers: Transfers, *, is_new: bool
) -> _Sent:
    """Send a range of an image, unless the registry has it: one that ``is_new`` has nothing."""
    piece = Piece(*place, digests.of_range(file, *place))
    if not is_new and repository.has_blob(piece.digest):
        transfers.add(piece.size)
        return _Sent(piece, moved=False)
    repository.send_blob(range_of(file, piece, transfers.add))
    return _Sent(piece, moved=True)


def _hash_whole(file: int, size: int, transfers: Transfers) -> str:
    sha256 = hashlib.sha256()
    for at in range(0, size, _READ):
        transfers.add(0)
        sha256.update(os.pread(file, _READ, at))
    return sha256.hexdigest()


def range_of(file: int, piece: Piece, count: Callable[[int], None]) -> Upload:
    """Return a range of an open file as what is sent; ``count`` gets the size of each read."""

    def open_range(at: int, size: int) -> IO[bytes]:
        return cast(IO[bytes], _Range(file, piece.offset + at, size, count))

    return Upload(piece.size, piece.digest, open_range)


class _Range:
    """Read a range of an open file, whose place other threads do not share."""

    def __init__(self, file: int, offset: int, size: int, count: Callable[[int], None]) -> None:
        self._file, self._offset, self._left, self._count = file, offset, size, count

    def read(self, size: int = _READ, /) -> bytes:
        """Return the next bytes, at most ``size``."""
        piece = os.pread(self._file, min(size, self._left), self._offset)
        if not piece and self._left:
            raise ValueError("the image became shorter while it was sent")
        self._offset, self._left = self._offset + len(piece), self._left - len(piece)
        self._count(len(piece))
        return piece

    def close(self) -> None:
        """Leave the file open."""
