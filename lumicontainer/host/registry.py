"""Read images of a registry, as the OCI distribution specification says.

Usage: python -m lumicontainer.host.registry IMAGE FOLDER PLAIN [TRUST]

FOLDER gets the image; PLAIN is ``http`` for a registry without https.
"""

import hashlib
import sys
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import DownloadError, Problem, SpaceError
from lumicontainer.host.manifests import (
    Blob,
    SavedImage,
    parse_manifest,
    parse_variables,
    write_saved,
)
from lumicontainer.host.mirrors import mirrored_image, plain_registry, whole_image
from lumicontainer.host.transfers import Client, json_object
from lumicontainer.system import budget
from lumicontainer.system.os_errors import refused, run_guarded

_HUB, _HUB_SERVER = "docker.io", "registry-1.docker.io"
_TYPES = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)


class _Blobs(NamedTuple):
    """Hold where the blobs of an image are, and their limit."""

    name: str
    total: budget.Total
    plain: bool
    trust: Path | None


def pinned_image(image: str, mirrors: Mapping[str, str], trust: Path | None) -> str:
    """Return an image by its digest, in place of the tag: engines refuse both side by side.

    ``trust`` are the certificates of the site. Raises ``DownloadError`` if no registry answers.
    """
    where = mirrored_image(whole_image(image), mirrors)
    manifest = _manifest(where, image, plain=plain_registry(image, mirrors), trust=trust)
    # The registry's own name for it proves nothing: hash the bytes.
    return f"{_parted(image)[0]}@sha256:{hashlib.sha256(manifest).hexdigest()}"


def save_image(image: str, folder: Path, *, plain: bool, trust: Path | None) -> SavedImage:
    """Download the layers of an image for this machine into ``folder``.

    ``plain`` asks by http. Raises ``DownloadError`` if a download does not have its digest.
    """
    where = whole_image(image)
    name = _parted(where)[0]
    blobs = _Blobs(name, budget.Total(budget.IMAGE), plain, trust)
    manifest = parse_manifest(_manifest(where, image, plain=plain, trust=trust), image)
    if isinstance(manifest, Blob):
        body = _manifest(f"{name}@{manifest.digest}", image, plain=plain, trust=trust)
        manifest = parse_manifest(body, image)
    if isinstance(manifest, Blob):
        why, hint = "its index names another index", "name an image by its digest"
        raise DownloadError(Problem(f"cannot download '{image}'", why=why, hint=hint))
    files = dict[str, Path]()
    for layer in manifest.layers:
        if layer.digest not in files:
            files[layer.digest] = folder / f"{len(files)}.tar"
            _save_blob(blobs, layer, files[layer.digest], budget.LAYER)
    config = folder / "config.json"
    _save_blob(blobs, manifest.config, config, budget.MANIFEST)
    layers = [files[each.digest] for each in manifest.layers]
    return SavedImage(layers, parse_variables(config.read_bytes(), image))


def _manifest(where: str, image: str, *, plain: bool, trust: Path | None) -> bytes:
    name, tag = _parted(where)
    url = _url(name, "manifests", tag, plain=plain)
    try:
        manifest, named = _read_manifest(url, trust)
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
    body, headers = Client(trust).read(url, budget.MANIFEST, {"Accept": _TYPES})
    manifest = json_object(body)
    is_list = (isinstance(manifest.get(rows), list) for rows in ("manifests", "layers"))
    if "schemaVersion" not in manifest or not any(is_list):
        # A proxy may answer instead of the registry, with a page that asks to log in.
        start = body[:60].decode("utf-8", "replace")
        raise ValueError(f"the answer is not a manifest: {start!r}")
    return body, headers.get("Docker-Content-Digest", "")


def _save_blob(blobs: _Blobs, blob: Blob, file: Path, limits: budget.Transfer) -> None:
    """Download a blob, no more bytes than its manifest states; it may be larger than the memory."""
    url = _url(blobs.name, "blobs", blob.digest, plain=blobs.plain)
    try:
        limits = _limits(blob.size, limits)
        total, count = blobs.total, None if blob.size else blobs.total.count
        total.count(blob.size or 0)
        Client(blobs.trust).save(url, file, total.shorten(limits), count)
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, OSError) and isinstance(refused(error, ""), SpaceError):
            raise
        raise _unread(f"cannot download a part of '{blobs.name}'", url, str(error)) from error
    with file.open("rb") as copy:
        _require_digest(hashlib.file_digest(copy, "sha256").hexdigest(), blob.digest, url)


def _limits(size: int | None, limits: budget.Transfer) -> budget.Transfer:
    if size is not None and size > limits.most:
        raise ValueError(f"expected a size of up to {limits.most} bytes, got {size}")
    return limits._replace(most=limits.most if size is None else size)


def _require_digest(sha256: str, named: str, url: str) -> None:
    if not named.startswith("sha256:"):
        why = f"expected a digest by sha256, got '{named}'"
        raise DownloadError(Problem("cannot check a download", url, why, "name another image"))
    digest = f"sha256:{sha256}"
    if named != digest:
        raise _unread("a download does not have its digest", url, f"expected {named}, got {digest}")


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


def main() -> None:
    """Read the command line."""
    image, folder, plain, *trust = sys.argv[1:]
    place = Path(folder)
    certificates = Path(trust[0]) if trust else None
    saved = save_image(image, place, plain=plain == "http", trust=certificates)
    write_saved(place, saved)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
