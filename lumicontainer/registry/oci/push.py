"""Push an image as an ordinary OCI image, which Docker, Podman and scanners read.

Its layers are the archives of ``image.assembly.archives``, compressed by gzip, which every reader
knows. They are made one after the other, and sent meanwhile.
"""

import hashlib
import json
import os
import shutil
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.errors import InputError, Problem, SpaceError
from lumicontainer.image import digests, sif
from lumicontainer.image.assembly.archives import Archive, plan_archives, read_archive
from lumicontainer.image.assembly.reader import Squashfs, read_squashfs
from lumicontainer.registry.artifacts import MANIFEST
from lumicontainer.registry.cutting import Piece, digest_of_bytes
from lumicontainer.registry.oci.config import ContainerConfig, write_config
from lumicontainer.registry.push import Pushed, range_of
from lumicontainer.registry.referrers import attach_bill
from lumicontainer.registry.remote_image import RemoteImage, content_of
from lumicontainer.registry.transfers import Transfers
from lumicontainer.system import units
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.files.temporary import plain_folder
from lumicontainer.system.terminal.progress import Progress

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_LEVEL = 3
_GZIP = 31
"""zlib's number for the format of gzip."""
_CHUNK = 4 << 20
"""The bytes that are compressed alone: readers of gzip join what follows."""
_THREADS = min(16, len(os.sched_getaffinity(0)))
_AHEAD = 2 * _THREADS
"""The chunks that are in the memory."""


class _Layer(NamedTuple):
    """Hold a compressed archive, and the digest of the archive."""

    file: Path
    size: int
    digest: str
    archive: str


def push_oci_image(
    image: Path,
    repository: RemoteImage,
    progress: Progress,
    config: ContainerConfig,
    *,
    bill: bytes = b"",
) -> Pushed:
    """Push the files of an image under its tag, and attach its bill of materials.

    Raises ``InputError``, ``SpaceError``, ``OSError``, ``ValueError`` and ``HTTPException``.
    """
    squashfs, archives = _read(image)
    total = sum(member.size for archive in archives for member in archive)
    with plain_folder("push+") as folder, progress.step("push") as task:
        _require_space(folder, image.stat().st_size)
        with Transfers(total, task.reached) as transfers:
            layers, started = [], []
            for number, archive in enumerate(archives):
                content = _counted(read_archive(squashfs, archive), transfers)
                layers.append(_compress(content, folder / str(number)))
                started.append(transfers.start(_send, layers[-1], repository, transfers))
            sent = [each.result() for each in started]
        about = write_config(config, [each.archive for each in layers])
        manifest = _write_manifest(about, layers)
        repository.send_missing(content_of(about))
        repository.put_manifest(manifest)
        if bill:
            attach_bill(bill, repository, manifest)
    moved = [each for each in sent if each]
    size = sum(each.size for each in layers)
    return Pushed(digest_of_bytes(manifest), size, len(layers), sum(moved), len(moved))


def _read(image: Path) -> tuple[Squashfs, list[Archive]]:
    root = sif.root(image)
    if sif.has_overlay(image):
        what, why = "the image has an overlay of yours", "an OCI image would not have its files"
        hint = "push it without --format, or name the image without the overlay"
        raise InputError(Problem(what, str(image), why, hint))
    squashfs = read_squashfs(image, root.offset, size=root.size)
    with open_regular(image) as stream:
        bounds = digests.recorded_bounds(stream.fileno())
    return squashfs, plan_archives(squashfs, [each - root.offset for each in bounds])


def _require_space(folder: Path, size: int) -> None:
    # Archives that gzip compressed are about as large as the image.
    free = shutil.disk_usage(folder).free
    if free < size:
        why = f"they take about {units.size(size)}, and {units.size(free)} are free"
        hint = "free some space, or name another place with LUMICONTAINER_TMPDIR"
        what = "there is no space for the layers of the OCI image"
        raise SpaceError(Problem(what, str(folder.parent), why, hint))


def _counted(content: Iterable[bytes], transfers: Transfers) -> Iterator[bytes]:
    for piece in content:
        transfers.add(len(piece))
        yield piece


def _compress(content: Iterable[bytes], file: Path) -> _Layer:
    """Write an archive, compressed; equal ones have equal bytes with one version of zlib."""
    archive, compressed, size = hashlib.sha256(), hashlib.sha256(), 0
    with file.open("wb") as copy, ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[bytes]] = deque()

        def write(most: int) -> int:
            written = 0
            while len(waiting) > most:
                piece = waiting.popleft().result()
                compressed.update(piece)
                written += copy.write(piece)
            return written

        for chunk in _joined(content):
            archive.update(chunk)
            waiting.append(pool.submit(zlib.compress, chunk, _LEVEL, _GZIP))
            size += write(_AHEAD)
        size += write(0)
    return _Layer(file, size, *(f"sha256:{each.hexdigest()}" for each in (compressed, archive)))


def _joined(content: Iterable[bytes]) -> Iterator[bytes]:
    """Yield content in chunks, all of one size but the last."""
    chunk = bytearray()
    for piece in content:
        chunk += piece
        while len(chunk) >= _CHUNK:
            yield bytes(chunk[:_CHUNK])
            del chunk[:_CHUNK]
    yield bytes(chunk)


def _send(layer: _Layer, repository: RemoteImage, transfers: Transfers) -> int:
    """Send a layer unless the registry has it; remove its file; return the bytes that were sent."""
    try:
        if repository.has_blob(layer.digest):
            return 0
        with layer.file.open("rb") as stream:
            piece = Piece(0, layer.size, layer.digest.partition(":")[2])
            repository.send_blob(range_of(stream.fileno(), piece, lambda _: transfers.add(0)))
        return layer.size
    finally:
        layer.file.unlink()


def _write_manifest(about: bytes, layers: Iterable[_Layer]) -> bytes:
    def described(kind: str, digest: str, size: int) -> dict[str, Any]:
        return {"mediaType": kind, "digest": digest, "size": size}

    content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(_CONFIG, digest_of_bytes(about), len(about)),
        "layers": [described(_LAYER, each.digest, each.size) for each in layers],
    }
    return json.dumps(content).encode()
