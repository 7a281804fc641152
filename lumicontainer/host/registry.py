"""Read images of a registry, as the OCI distribution specification says."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.errors import DownloadError, Problem, SpaceError
from lumicontainer.host.mirrors import mirrored_image, plain_registry, whole_image
from lumicontainer.host.transfers import Client, json_object
from lumicontainer.system import budget
from lumicontainer.system.os_errors import refused

_HUB, _HUB_SERVER = "docker.io", "registry-1.docker.io"
_TYPES = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)


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
        _save_blob(name, layer, file, plain=plain, trust=trust)
        files.append(file)
    config = folder / "config.json"
    _save_blob(name, manifest["config"], config, plain=plain, trust=trust)
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
    found = json_object(body)
    is_list = (isinstance(found.get(rows), list) for rows in ("manifests", "layers"))
    if "schemaVersion" not in found or not any(is_list):
        # A proxy may answer in place of the registry, with a page that asks to log in.
        start = body[:60].decode("utf-8", "replace")
        raise ValueError(f"the answer is not a manifest: {start!r}")
    return body, headers.get("Docker-Content-Digest", "")


def _save_blob(
    name: str, row: Mapping[str, Any], file: Path, *, plain: bool, trust: Path | None
) -> None:
    """Download the blob that a row of a manifest describes; it may be larger than the memory."""
    digest = row["digest"]
    url = _url(name, "blobs", digest, plain=plain)
    try:
        Client(trust).save(url, file, _limits(row.get("size")))
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, OSError) and isinstance(refused(error, ""), SpaceError):
            raise
        raise _unread(f"cannot download a layer of '{name}'", url, str(error)) from error
    with file.open("rb") as copy:
        _require_digest(hashlib.file_digest(copy, "sha256").hexdigest(), digest, url)


def _limits(size: object) -> budget.Transfer:
    """Return the limits of a blob: no more bytes than its manifest states."""
    limits = budget.LAYER
    if size is None:
        return limits
    if not isinstance(size, int) or not 0 <= size <= limits.most:
        raise ValueError(f"expected a size of up to {limits.most} bytes, got {size!r}")
    return limits._replace(most=size)


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
