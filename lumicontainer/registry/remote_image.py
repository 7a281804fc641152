"""Ask a registry for the blobs and manifests of one image, as the OCI distribution spec says."""

import re
import ssl
import time
from collections.abc import Callable
from email.message import Message
from http.client import HTTPException
from io import BytesIO
from typing import IO, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urljoin, urlsplit

from lumicontainer.errors import DownloadError, Problem
from lumicontainer.host.transfers import (
    Answer,
    Client,
    HttpRequest,
    copy_body,
    json_object,
    repeat,
)
from lumicontainer.registry import artifacts
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.image_name import ImageName
from lumicontainer.system import budget
from lumicontainer.system.budget import Total, Transfer

_CHUNK = 32 << 20
"""The bytes that are sent at once where a registry refuses larger bodies."""
_TOO_LARGE = 413
_UNKNOWN = b'"NAME_UNKNOWN"'
"""The code of an error about a name that a registry does not have."""
_REASON = 64 << 10
"""The most bytes of an error that are read."""
_ACCEPTABLE = re.compile(r"[0-9]{1,12}")


class Upload(NamedTuple):
    """Hold bytes to send: ``open`` returns a stream of a range of them, from a place and a size."""

    size: int
    digest: str
    open: Callable[[int, int], IO[bytes]]


class Sink(Protocol):
    """Take the bytes of a blob; ``done`` of them have come, ``joined`` if of several answers."""

    done: int
    joined: bool

    def write(self, piece: bytes, /) -> object:
        """Take the next bytes."""

    def restart(self) -> None:
        """Forget all bytes: they come again."""


def content_of(data: bytes) -> Upload:
    """Return bytes as what is sent."""
    return Upload(len(data), digest_of_bytes(data), lambda at, size: BytesIO(data[at : at + size]))


class RemoteImage:
    """Ask for the blobs of a name in a registry; threads may share it.

    Errors are ``OSError``, ``ValueError`` and ``HTTPException``.
    """

    def __init__(
        self, reference: ImageName, client: Client, total: Total, *, optional: bool = False
    ) -> None:
        """Hold what requests need; what is ``optional`` is not waited for as long."""
        self.reference = reference
        self._client, self._total, self._optional = client, total, optional
        protocol = _protocol(reference, client, self._limits(budget.BLOB_STATE))
        self._base = f"{protocol}://{reference.server}/v2/{reference.name}"

    def read_manifest(self) -> tuple[bytes, str]:
        """Return a manifest and its digest; raise ``DownloadError`` if it has another one."""
        url = f"{self._base}/manifests/{self.reference.tag}"
        body, headers = self._client.read(url, budget.MANIFEST, {"Accept": artifacts.ACCEPTED})
        digest = digest_of_bytes(body)
        named = headers.get("Docker-Content-Digest", digest)
        if self.reference.is_digest:
            named = self.reference.tag
        if named != digest:
            why, hint = f"expected {named}, got {digest}", "push the image again"
            what = "the manifest does not have its digest"
            raise DownloadError(Problem(what, str(self.reference), why, hint))
        return body, digest

    def has_blob(self, digest: str) -> bool:
        """Return whether the registry has a blob."""
        call = HttpRequest(f"{self._base}/blobs/{digest}", method="HEAD")
        try:
            repeat(lambda end: self._client.ask(call, budget.BLOB_STATE, end), budget.BLOB_STATE)
        except HTTPError as error:
            if error.code == 404:
                error.close()
                return False
            raise
        return True

    def has_tags(self) -> bool:
        """Return whether the name has a tag; True also if the registry does not say that."""
        try:
            answer = self._client.read(f"{self._base}/tags/list?n=1", budget.BLOB_STATE, {})
        except HTTPError as error:
            with error:
                return not (error.code == 404 and _UNKNOWN in error.read(_REASON))
        return bool(json_object(answer.body).get("tags", True))

    def fetch_blob(self, digest: str, size: int, sink: Sink) -> None:
        """Write a blob to a sink; each attempt goes on where the last one ended."""
        limits = self._limits(budget.LAYER)

        def attempt(end: float) -> None:
            done = sink.done
            headers = {"Range": f"bytes={done}-"} if done else {}
            call = HttpRequest(f"{self._base}/blobs/{digest}", headers)
            with self._client.begin(call, limits, end) as answer:
                if done and answer.status == 206 and _begins_at(answer.headers, done):
                    sink.joined = True
                elif done:
                    sink.restart()
                rest = limits._replace(most=size - sink.done)
                copy_body(answer, sink, rest, self._total.count)

        repeat(attempt, self._total.shorten(limits))

    def send_missing(self, content: Upload) -> None:
        """Send a blob unless the registry has it."""
        if not self.has_blob(content.digest):
            self.send_blob(content)

    def send_blob(self, content: Upload) -> None:
        """Send a blob: at once, or in chunks where the registry refuses so many bytes at once."""
        try:
            repeat(lambda end: self._send_at_once(content, end), budget.UPLOAD)
        except HTTPError as error:
            if error.code != _TOO_LARGE:
                raise
            error.close()
            repeat(lambda end: self._send_chunks(content, end), budget.UPLOAD)

    def read_tag(self, tag: str) -> Answer:
        """Return the manifest of another tag."""
        url, limits = f"{self._base}/manifests/{tag}", self._limits(budget.MANIFEST)
        return self._client.read(url, limits, {"Accept": artifacts.ACCEPTED})

    def put_manifest(
        self, manifest: bytes, tag: str = "", kind: str = artifacts.MANIFEST, *, etag: str = ""
    ) -> Message:
        """Give a manifest a tag, by default that of the image; return the headers of the answer.

        With an ``etag``, a registry that knows ETags answers 412 if the tag has another one.
        """
        url = f"{self._base}/manifests/{tag or self.reference.tag}"
        headers = {"Content-Type": kind, **({"If-Match": etag} if etag else {})}
        call = _sending(url, "PUT", content_of(manifest), headers)
        return repeat(lambda end: self._client.ask(call, budget.UPLOAD, end), budget.UPLOAD).headers

    def _limits(self, limits: Transfer) -> Transfer:
        return budget.shorten_patience(limits) if self._optional else limits

    def _send_at_once(self, content: Upload, end: float) -> None:
        place, _ = self._begin_upload(end)
        call = _sending(_with_digest(place, content.digest), "PUT", content)
        self._client.ask(call, budget.UPLOAD, end)

    def _send_chunks(self, content: Upload, end: float) -> None:
        place, least = self._begin_upload(end)
        for at in range(0, content.size, step := max(_CHUNK, least)):
            size = min(step, content.size - at)
            headers = {"Content-Range": f"{at}-{at + size - 1}"}
            part = Upload(size, "", lambda _, size, at=at: content.open(at, size))  # type: ignore[misc]
            call = _sending(place, "PATCH", part, headers)
            place = self._next(place, self._client.ask(call, budget.UPLOAD, end).headers)
        empty = content_of(b"")
        self._client.ask(
            _sending(_with_digest(place, content.digest), "PUT", empty), budget.UPLOAD, end
        )

    def _begin_upload(self, end: float) -> tuple[str, int]:
        """Return where the bytes of a blob go, and the fewest bytes of a chunk."""
        url = f"{self._base}/blobs/uploads/"
        headers = self._client.ask(
            _sending(url, "POST", content_of(b"")), budget.UPLOAD, end
        ).headers
        least = headers.get("OCI-Chunk-Min-Length", "0").strip()
        return self._next(url, headers), int(least) if _ACCEPTABLE.fullmatch(least) else 0

    def _next(self, url: str, headers: Message) -> str:
        place = urljoin(url, headers.get("Location", ""))
        if urlsplit(place).scheme != urlsplit(self._base).scheme or place == url:
            raise ValueError(f"the registry sends an upload to {place!r}")
        return place


def _sending(
    url: str, method: str, content: Upload, headers: dict[str, str] | None = None
) -> HttpRequest:
    return HttpRequest(
        url, headers or {}, method, lambda: content.open(0, content.size), content.size
    )


def _with_digest(place: str, digest: str) -> str:
    return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode({'digest': digest})}"


def _begins_at(headers: Message, done: int) -> bool:
    return headers.get("Content-Range", "").startswith(f"bytes {done}-")


def _protocol(reference: ImageName, client: Client, limits: Transfer) -> str:
    """Return https; or http for a registry of this host that does not speak https."""
    if not reference.is_of_this_host:
        return "https"
    try:
        call = HttpRequest(f"https://{reference.server}/v2/", method="HEAD")
        client.begin(call, limits, time.monotonic() + limits.seconds).close()
    except HTTPError:
        return "https"
    except URLError as error:
        wrong = isinstance(error.reason, ssl.SSLCertVerificationError)
        plain = isinstance(error.reason, (ssl.SSLError, ConnectionResetError)) and not wrong
        return "http" if plain else "https"
    except (OSError, HTTPException, ValueError):
        return "https"
    return "https"
