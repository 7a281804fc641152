"""Read images of a registry, as the OCI distribution specification says."""

import hashlib
import json
import re
import shutil
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from lumicontainer.errors import DownloadError, Problem, SpaceError
from lumicontainer.host.mirrors import mirrored_image, plain_registry, whole_image
from lumicontainer.system.os_errors import refused

_HUB, _HUB_SERVER = "docker.io", "registry-1.docker.io"
_TYPES = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
SECONDS = 30
"""How long a registry may send nothing."""
PAUSES = (1, 2, 4, 8)
"""Seconds before a download is repeated. They, and ``_BUSY``, are those of curl --retry 4."""
_BUSY = {408, 429, 500, 502, 503, 504}
_LONGEST = 60
"""Seconds: a registry that asks for a longer pause is not waited for."""
_MOST = 4 << 20
"""The largest manifest that registries accept, in bytes."""
T = TypeVar("T")


def pinned_image(image: str, mirrors: Mapping[str, str], trust: Path | None) -> str:
    """Return an image by its digest, in place of the tag: engines refuse both side by side.

    ``trust`` are the certificates of the site. Raises ``DownloadError`` where no registry answers.
    """
    where = mirrored_image(whole_image(image), mirrors)
    manifest = _manifest(where, image, plain=plain_registry(image, mirrors), trust=trust)
    # The registry's own name for it proves nothing: hash the bytes.
    return f"{_parted(image)[0]}@sha256:{hashlib.sha256(manifest).hexdigest()}"


class SavedImage(NamedTuple):
    """Hold the files of an image's layers, the lowest first, and its variables."""

    layers: Sequence[Path]
    environment: Sequence[str]
    """As NAME=VALUE."""


def save_image(image: str, folder: Path, *, plain: bool, trust: Path | None) -> SavedImage:
    """Download the layers of an image for this machine into ``folder``.

    ``plain`` asks by http. Raises ``DownloadError`` if a download does not have its digest.
    """
    manifest = json.loads(_manifest(whole_image(image), image, plain=plain, trust=trust))
    name = _parted(whole_image(image))[0]
    if "manifests" in manifest:
        digest = _for_this_machine(manifest["manifests"], image)
        manifest = json.loads(_manifest(f"{name}@{digest}", image, plain=plain, trust=trust))
    files = []
    for number, layer in enumerate(manifest["layers"]):
        file = folder / f"{number}.tar"
        _save_blob(name, layer["digest"], file, plain=plain, trust=trust)
        files.append(file)
    config = folder / "config.json"
    _save_blob(name, manifest["config"]["digest"], config, plain=plain, trust=trust)
    about = json.loads(config.read_bytes())
    return SavedImage(files, about.get("config", {}).get("Env") or ())


def _for_this_machine(rows: Sequence[Mapping[str, Any]], image: str) -> str:
    for row in rows:
        kind = row.get("platform", {})
        if (kind.get("os"), kind.get("architecture")) == ("linux", "amd64"):
            return str(row["digest"])
    raise DownloadError(Problem(f"'{image}' has no image for amd64", hint="name another image"))


def _manifest(where: str, image: str, *, plain: bool, trust: Path | None) -> bytes:
    name, tag = _parted(where)
    url = _url(name, "manifests", tag, plain=plain)
    try:
        manifest, named = _repeated(lambda: _read_manifest(url, trust))
    except (OSError, ValueError, HTTPException) as error:
        raise _unread(f"cannot read the digest of '{image}'", url, str(error)) from error
    sha256 = hashlib.sha256(manifest).hexdigest()
    if named.startswith("sha256:"):
        _require_digest(sha256, named, url)
    if "@" in where:
        _require_digest(sha256, tag, url)
    return manifest


def _read_manifest(url: str, trust: Path | None) -> tuple[bytes, str]:
    """Return a manifest, and the digest that its registry names, if any."""
    with _answer(url, {"Accept": _TYPES}, trust) as answer:
        body = _read(answer)
        named = answer.headers.get("Docker-Content-Digest", "")
    found = _fields(body)
    is_list = (isinstance(found.get(rows), list) for rows in ("manifests", "layers"))
    if "schemaVersion" not in found or not any(is_list):
        # A proxy may answer in place of the registry, with a page that asks to log in.
        start = body[:60].decode("utf-8", "replace")
        raise ValueError(f"the answer is not a manifest: {start!r}")
    return body, named


def _save_blob(name: str, digest: str, file: Path, *, plain: bool, trust: Path | None) -> None:
    """Download a blob to a file; it may be larger than the memory."""
    url = _url(name, "blobs", digest, plain=plain)
    try:
        _repeated(lambda: _copy(url, file, trust))
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, OSError) and isinstance(refused(error, ""), SpaceError):
            raise
        raise _unread(f"cannot download a layer of '{name}'", url, str(error)) from error
    with file.open("rb") as copy:
        _require_digest(hashlib.file_digest(copy, "sha256").hexdigest(), digest, url)


def _copy(url: str, file: Path, trust: Path | None) -> None:
    with _answer(url, {}, trust) as answer, file.open("wb") as copy:
        shutil.copyfileobj(answer, copy, 1 << 20)
        _require_whole(answer, copy.tell())


def _read(answer: HTTPResponse) -> bytes:
    body = answer.read(_MOST)
    _require_whole(answer, len(body))
    return body


def _fields(body: bytes) -> dict[str, Any]:
    """Return the object that a body is in JSON; empty if it is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _require_whole(answer: HTTPResponse, got: int) -> None:
    # A read of some bytes does not notice that the connection ended early.
    size = int(answer.headers.get("Content-Length", got))
    if got != size:
        raise ConnectionError(f"expected {size} bytes, got {got}")


def _require_digest(sha256: str, named: str, url: str) -> None:
    if not named.startswith("sha256:"):
        why = f"expected a digest by sha256, got '{named}'"
        raise DownloadError(Problem("cannot check a download", url, why, "name another image"))
    found = f"sha256:{sha256}"
    if named != found:
        raise _unread("a download does not have its digest", url, f"expected {named}, got {found}")


def _unread(what: str, url: str, why: str) -> DownloadError:
    hint = "check the image and the network, or name a mirror: --mirror FROM=TO"
    return DownloadError(Problem(what, url, why, hint))


def _url(name: str, kind: str, what: str, *, plain: bool) -> str:
    host, _, path = name.partition("/")
    server = _HUB_SERVER if host == _HUB else host
    return f"{'http' if plain else 'https'}://{server}/v2/{path}/{kind}/{what}"


def _parted(image: str) -> tuple[str, str]:
    """Return the name and the tag or digest of an image; a colon may also stand before a port."""
    if "@" in image:
        name, _, digest = image.partition("@")
        return name, digest
    folder, slash, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", tag or "latest"


def _repeated(download: Callable[[], T]) -> T:
    """Return what is downloaded; repeat it while the registry is busy or the connection breaks."""
    for pause in PAUSES:
        try:
            return download()
        except (OSError, HTTPException) as error:
            wait = _wait(error, pause)
            if wait is None:
                raise
        time.sleep(wait)
    return download()


def _wait(error: Exception, pause: int) -> int | None:
    """Return the seconds until a download that failed is repeated; None if that is useless."""
    if isinstance(error, HTTPError):
        asked = error.headers.get("Retry-After", "")
        pause = int(asked) if asked.isdecimal() else pause
        return pause if error.code in _BUSY and pause <= _LONGEST else None
    why = error.reason if isinstance(error, URLError) else error
    return pause if isinstance(why, (ConnectionError, TimeoutError, IncompleteRead)) else None


def _answer(url: str, headers: Mapping[str, str], trust: Path | None) -> HTTPResponse:
    try:
        return _opened(url, headers, trust)
    except HTTPError as error:
        kind, _, challenge = error.headers.get("WWW-Authenticate", "").partition(" ")
        if error.code != 401 or kind.lower() != "bearer":
            raise
    fields = dict(_CHALLENGE.findall(challenge))
    realm = fields.pop("realm", "")
    # Anyone gets such a token. Still, it is not requested over a weaker protocol than the manifest.
    if realm.partition(":")[0] not in ("https", url.partition(":")[0]):
        raise ValueError(f"the registry asks to log in at '{realm}'")
    return _opened(url, headers, trust, f"Bearer {_token(realm, fields, trust)}")


def _token(realm: str, fields: Mapping[str, str], trust: Path | None) -> str:
    with _opened(f"{realm}?{urlencode(fields)}", {}, trust) as given:
        found = _fields(_read(given))
    token = found.get("token") or found.get("access_token")
    if not isinstance(token, str):
        raise ValueError(f"'{realm}' did not return a token")
    return token


def _opened(
    url: str, headers: Mapping[str, str], trust: Path | None, authorization: str = ""
) -> HTTPResponse:
    context = ssl.create_default_context(cafile=trust)
    request = Request(url, headers=dict(headers))  # noqa: S310 - the scheme is https, or a mirror's
    if authorization:
        # A registry redirects to a store of others, which gets no token.
        request.add_unredirected_header("Authorization", authorization)
    found: HTTPResponse = urlopen(request, timeout=SECONDS, context=context)  # noqa: S310
    return found
