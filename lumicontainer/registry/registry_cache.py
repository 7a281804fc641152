"""A cache of layers and wheels in a registry: take what others have sent there.

It has what a shared cache has, under the same rules of trust: see ``cache.shared``.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple
from urllib.error import HTTPError

from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import LAYER, Entry, parse_entry
from lumicontainer.cache.shared import trusted
from lumicontainer.cache.shared.source import Untrusted, keep_copy
from lumicontainer.cache.shared.trusted import OWNERS, SIGNERS, Vouchers
from lumicontainer.cache.store import Cache
from lumicontainer.errors import DownloadError, HostError, InputError, Problem
from lumicontainer.host.site import host_trust
from lumicontainer.host.transfers import Client
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.registry.cache_objects import ObjectFile, ObjectManifest, read_object
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.failures import reporting
from lumicontainer.registry.image_name import ImageName
from lumicontainer.registry.logins import find_login
from lumicontainer.registry.remote_image import RemoteImage
from lumicontainer.registry.transfers import Transfers
from lumicontainer.system import budget
from lumicontainer.system.budget import LimitError, Total
from lumicontainer.system.connections import Connections

_UNREACHABLE = "the build makes its layers itself: it cannot take any of the registry"


class _Found(NamedTuple):
    """Hold what a trusted object consists of."""

    publisher: str
    manifest: ObjectManifest


class RegistryCache:
    """Hold where a cache is, and whom the user trusts; threads may share it.

    After the first request that fails, the registry is asked no more. ``trusts_writers``: whether
    the user trusts all who may write there.
    """

    def __init__(
        self,
        reference: ImageName,
        vouchers: Vouchers,
        connections: Connections | None = None,
        *,
        trusts_writers: bool = False,
    ) -> None:
        self._reference, self._vouchers = reference, vouchers
        self._trusts_writers, self._connections = trusts_writers, connections
        self._failure: DownloadError | HostError | None = None

    @classmethod
    def named(cls, reference: ImageName, connections: Connections | None) -> "RegistryCache":
        """Return a cache with the trust that the environment names."""
        trusts_writers = reference.repository in trusted.trusted_registries()
        return cls(reference, Vouchers.named(), connections, trusts_writers=trusts_writers)

    def require(self) -> None:
        """Do nothing: the first request says whether the registry answers."""

    def entry(self, name: str) -> Entry | None:
        """Return an object, whose layer is not fetched; None if it cannot be taken."""
        with suppress(FileNotFoundError, Damaged, Untrusted, DownloadError, HostError):
            publisher, manifest = self._find(name)
            file, content = manifest.about, BytesIO()
            with self._asking() as remote:
                _fetch(remote, file, _Arrival(content, lambda _: None))
            about = content.getvalue()
            if digest_of_bytes(about) == file.digest:
                sums, size = manifest.sums, manifest.size
                entry = parse_entry(Path(name), about, sums, size=size, used=0)
                return entry and replace(entry, publisher=publisher)
        return None

    def take(self, name: str, store: Cache, count: Callable[[int], None] = lambda _: None) -> Entry:
        """Fetch an object into a user's own cache, as ``LayerSource`` describes it."""
        publisher, manifest = self._find(name)

        def fetch_files(draft: Path) -> None:
            with self._asking() as remote, Transfers(manifest.size, lambda *_: None) as transfers:
                for file in manifest.files:
                    transfers.start(_save, remote, file, draft / file.name, count)
            _require_readable(draft / LAYER)

        return keep_copy(store, name, manifest.sums, publisher, fetch_files)

    def doubt(self, name: str, step: str) -> Problem | None:
        """Return the warning about an object that a build would not take; None if it is missing."""
        try:
            self._find(name)
        except FileNotFoundError:
            return None
        except (Damaged, Untrusted, DownloadError, HostError) as error:
            return self.refusal(name, step, error)
        return None

    def refusal(self, name: str, step: str, error: Exception) -> Problem:
        """Return the warning that an object is not taken because of an error of ``take``."""
        place = self._reference.repository
        if isinstance(error, (DownloadError, HostError)):
            return error.problems[0]._replace(where=place, level="warning")
        hint = f"its publisher removes this tag; --cache-to {place} then sends the object again"
        hint = error.hint if isinstance(error, Untrusted) else hint
        what = f"'{step}' is not taken from the registry"
        return Problem(what, f"{place}:{name}", str(error), hint, "warning")

    def _find(self, name: str) -> _Found:
        with self._asking() as remote:
            body = read_object_manifest(remote, name)
        if body is None:
            raise FileNotFoundError(name)
        manifest = read_object(body)
        return _Found(self._publisher(manifest), manifest)

    def _publisher(self, manifest: ObjectManifest) -> str:
        if who := self._vouchers.find(manifest.sums, manifest.signature):
            return who
        place = self._reference.repository
        if self._trusts_writers:
            return place
        why = "it is not signed by anyone whom you trust"
        if self._vouchers.signers and manifest.signature:
            why = "none of the allowed signers signed it"
        names = ",".join(filter(None, (os.environ.get(OWNERS), place)))
        hint = f"name the keys that you trust: export {SIGNERS}=FILE; or trust all who may write"
        raise Untrusted(why, f"{hint} there: export {OWNERS}={names}")

    @cached_property
    def _client(self) -> Client:
        return Client(host_trust(), find_login(self._reference), self._connections)

    @cached_property
    def _remote(self) -> RemoteImage:
        return RemoteImage(self._reference, self._client, Total(budget.IMAGE), optional=True)

    @contextmanager
    def _asking(self) -> Iterator[RemoteImage]:
        """Give what asks the registry; raise the first failure of all again."""
        if self._failure:
            raise self._failure
        try:
            with reporting(_UNREACHABLE, self._reference, self._client.login):
                yield self._remote
        except (DownloadError, HostError) as error:
            self._failure = self._failure or error
            raise self._failure from None


class _Arrival:
    """Write the bytes of a blob to a file, and count them."""

    def __init__(self, file: IO[bytes], count: Callable[[int], None]) -> None:
        self.done, self.joined = 0, False
        self._file, self._count = file, count

    def write(self, piece: bytes) -> None:
        """Write the next bytes."""
        self._file.write(piece)
        self.done += len(piece)
        self._count(len(piece))

    def restart(self) -> None:
        """Forget all bytes: they come again."""
        self._file.seek(0)
        self._file.truncate()
        self.done = 0


def read_object_manifest(remote: RemoteImage, name: str) -> bytes | None:
    """Return the manifest of an object; None if the registry has none."""
    try:
        return remote.read_tag(name).body
    except HTTPError as error:
        if error.code != 404:
            raise
    return None


def _save(remote: RemoteImage, file: ObjectFile, path: Path, count: Callable[[int], None]) -> None:
    with path.open("wb") as opened:
        _fetch(remote, file, _Arrival(opened, count))


def _fetch(remote: RemoteImage, file: ObjectFile, arrival: _Arrival) -> None:
    """Fetch a file, whose bytes are not verified; raise ``Damaged`` if it cannot be whole."""
    try:
        remote.fetch_blob(file.digest, file.size, arrival)
    except LimitError as error:
        raise Damaged(f"{file.name}: {error}") from error
    except HTTPError as error:
        if error.code != 404:
            raise
        raise Damaged(f"the registry does not have its {file.name}") from error


def _require_readable(layer: Path) -> None:
    """Raise ``Damaged`` if a layer is there and is not a squashfs."""
    if not layer.exists():  # Wheels have none.
        return
    try:
        read_squashfs(layer)
    except InputError as error:
        raise Damaged(f"{layer.name} is invalid: {error.problems[0].why}") from error
