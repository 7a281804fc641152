"""Pull an image: take what is here, fetch the rest, and give the whole its name at the end."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from lumicontainer.cache.store import Cache
from lumicontainer.errors import DownloadError, InputError, Problem, SpaceError
from lumicontainer.image.squashfs import apply_umask
from lumicontainer.registry.artifacts import Artifact, read_manifest
from lumicontainer.registry.cutting import Piece, cut_image, cut_layer, hash_range
from lumicontainer.registry.remote_image import RemoteImage
from lumicontainer.registry.transfers import Transfers
from lumicontainer.system import units
from lumicontainer.system.files.copying import copy_range
from lumicontainer.system.files.partial import Resumable, remove_leftovers, resumable_file
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.files.write import replace
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.progress import Progress

_OWNER = "pull"
_READ = 4 << 20


class Pulled(NamedTuple):
    """Hold the digest of an image in a registry, and what was fetched of it."""

    digest: str
    size: int
    blobs: int
    fetched: int
    fetched_blobs: int


def pull_image(
    repository: RemoteImage, output: Path, progress: Progress, store: Cache | None = None
) -> Pulled:
    """Write an image of a registry to a file, unless it is there.

    The bytes of an older image there, of the layers in a cache, and of what a pull that was killed
    or failed has left are used. Raises ``OSError``, ``ValueError`` and ``HTTPException``.
    """
    with progress.step("ask"):
        body, digest = repository.read_manifest()
    artifact = read_manifest(body, str(repository.reference))
    blobs = len(artifact.pieces)
    with resumable_file(output, _OWNER) as draft:
        places: dict[str, _Place] = {}
        if output.exists():
            with progress.step("read"), open_regular(output) as stream:
                cut = cut_image(stream.fileno())
            if (cut.sha256, cut.size) == (artifact.sha256, artifact.size):
                return Pulled(digest, artifact.size, blobs, 0, 0)
            places |= _places_in(output, cut.pieces)
        if store and (layers := [*store.layers(artifact.layers)]):
            with progress.step("read the cache"):
                places |= _find_in_layers(layers)
        _require_space(artifact, draft, output)
        with progress.step("pull") as task:
            transfers = Transfers(artifact.size, task.reached)
            fetched = _Pull(repository, artifact, draft, places, transfers).run()
        apply_umask(draft.path, 0o777)
        replace(draft.path, output)
    remove_leftovers(output)
    return Pulled(digest, artifact.size, blobs, sum(fetched), sum(size > 0 for size in fetched))


class _Place(NamedTuple):
    """Hold where a file has the bytes of a blob; they may change at any time."""

    file: Path
    offset: int

    def copy(self, target: int, piece: Piece) -> bool:
        """Copy the bytes to the place of a blob in an open file; return whether there are so many.

        They are not verified.
        """
        with suppress(OSError), open_regular(self.file) as source:
            copy_range(source.fileno(), self.offset, target, piece.offset, piece.size)
            return True
        return False


def _places_in(file: Path, pieces: Iterable[Piece]) -> dict[str, _Place]:
    """Return where a file has its blobs, by their sha256."""
    return {each.sha256: _Place(file, each.offset) for each in pieces}


def _find_in_layers(layers: Iterable[Path]) -> dict[str, _Place]:
    """Return where layers, each a squashfs, have the blobs of their data: an image has the same."""
    places: dict[str, _Place] = {}
    for layer in layers:
        # A prune may remove it meanwhile, and it may be damaged.
        with suppress(OSError, InputError), open_regular(layer) as stream:
            places |= _places_in(layer, cut_layer(stream.fileno()))
    return places


def _require_space(artifact: Artifact, draft: Resumable, output: Path) -> None:
    missing = artifact.size - os.fstat(draft.file).st_blocks * 512
    free = shutil.disk_usage(output.parent).free
    if missing > free:
        why = f"it takes {units.size(missing)} more, and {units.size(free)} are free"
        what, hint = "there is no space for the image", "free some space, or name another --output"
        raise SpaceError(Problem(what, str(output.parent), why, hint))


class _Pull:
    """Fill a draft with the blobs of an image."""

    def __init__(
        self,
        repository: RemoteImage,
        artifact: Artifact,
        draft: Resumable,
        places: Mapping[str, _Place],
        transfers: Transfers,
    ) -> None:
        self._repository, self._artifact, self._draft = repository, artifact, draft
        self._places, self._transfers = places, transfers
        self._begun = os.fstat(draft.file).st_size
        """The bytes that a former pull has left."""

    def run(self) -> list[int]:
        """Return how many bytes of each blob were fetched."""
        whole, fetched = hashlib.sha256(), list[int]()
        try:
            with self._transfers as transfers:
                futures = [transfers.start(self._place, each) for each in self._artifact.pieces]
                for piece, future in zip(self._artifact.pieces, futures, strict=True):
                    fetched.append(future.result())
                    self._hash(piece, whole)
        except (OSError, HTTPException, ValueError) as error:
            # The registry may answer later; a disk that is full is freed.
            is_full = isinstance(error, OSError) and isinstance(refused(error, ""), SpaceError)
            self._draft.stay = not is_full
            raise
        if whole.hexdigest() != self._artifact.sha256:
            what, why = "the image does not have its sha256", f"got {whole.hexdigest()}"
            why = f"its manifest states {self._artifact.sha256}, {why}"
            where, hint = str(self._repository.reference), "push the image again"
            raise DownloadError(Problem(what, where, why, hint))
        os.ftruncate(self._draft.file, self._artifact.size)
        return fetched

    def _hash(self, piece: Piece, whole: "hashlib._Hash") -> None:
        for at in range(piece.offset, piece.offset + piece.size, _READ):
            size = min(_READ, piece.offset + piece.size - at)
            whole.update(os.pread(self._draft.file, size, at))

    def _place(self, piece: Piece) -> int:
        """Put a blob in its place; return how many bytes were fetched."""
        place = self._places.get(piece.sha256)
        is_there = piece.offset < self._begun and self._is_there(piece)
        if is_there or (place and place.copy(self._draft.file, piece) and self._is_there(piece)):
            self._transfers.add(piece.size)
            return 0
        return self._fetch(piece)

    def _is_there(self, piece: Piece) -> bool:
        return hash_range(self._draft.file, piece.offset, piece.size) == piece.digest

    def _fetch(self, piece: Piece) -> int:
        # Only the one blob of an image that was not cut is long enough to go on within it.
        done = min(self._begun, piece.size) if len(self._artifact.pieces) == 1 else 0
        arrival = _Arrival(self._draft.file, piece.offset, done, self._transfers)
        self._repository.fetch_blob(piece.digest, piece.size, arrival)
        if arrival.joined and not self._is_there(piece):
            arrival.restart()
            self._repository.fetch_blob(piece.digest, piece.size, arrival)
        if not (arrival.has_come(piece) or self._is_there(piece)):
            what = "a blob of the image does not have its digest"
            where, why = str(self._repository.reference), f"expected {piece.digest}"
            hint = "push the image again; if it stays so, the registry is damaged"
            raise DownloadError(Problem(what, where, why, hint))
        return arrival.fetched


class _Arrival:
    """Write the bytes of a blob into its place of a file."""

    def __init__(self, file: int, offset: int, done: int, transfers: Transfers) -> None:
        self.done, self.fetched, self.joined = done, 0, False
        self._file, self._offset, self._transfers = file, offset, transfers
        self._sha256 = hashlib.sha256()
        transfers.add(done)

    def write(self, piece: bytes) -> None:
        """Write the next bytes."""
        self._sha256.update(piece)
        view = memoryview(piece)
        while view:
            written = os.pwrite(self._file, view, self._offset + self.done)
            view, self.done = view[written:], self.done + written
        self.fetched += len(piece)
        self._transfers.add(len(piece))

    def restart(self) -> None:
        """Forget all bytes: they come again."""
        self.done, self.joined = 0, False
        self._sha256 = hashlib.sha256()

    def has_come(self, piece: Piece) -> bool:
        """Return whether a whole blob has come since the last start."""
        return self._sha256.hexdigest() == piece.sha256
