"""Ask a registry of images which digest a tag has, as the OCI distribution specification says."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from lumicontainer.errors import DownloadError, Problem
from lumicontainer.host.mirrors import mirrored_image, plain_registry, whole_image

_HUB, _HUB_SERVER = "docker.io", "registry-1.docker.io"
_TYPES = ", ".join(
    f"application/vnd.{each}+json"
    for each in (
        "oci.image.index.v1",
        "docker.distribution.manifest.list.v2",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.v2",
    )
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_SECONDS = 30
_MOST = 4 << 20
"""Bytes of a manifest that registries take at most."""


def pinned_image(image: str, mirrors: Mapping[str, str], trust: Path | None) -> str:
    """Return an image by its digest, in place of the tag: engines refuse both side by side.

    ``trust`` are the certificates of the site. Raises ``DownloadError`` where no registry answers.
    """
    where = mirrored_image(whole_image(image), mirrors)
    scheme = "http" if plain_registry(image, mirrors) else "https"
    host, _, path = where.partition("/")
    name, tag = _parted(path)
    server = _HUB_SERVER if host == _HUB else host
    url = f"{scheme}://{server}/v2/{name}/manifests/{tag}"
    try:
        manifest = _get(url, {"Accept": _TYPES}, trust)
    except (OSError, ValueError, HTTPException) as error:
        hint = "check the image and the network, or name a mirror: --mirror FROM=TO"
        raise DownloadError(
            Problem(f"the digest of '{image}' could not be asked for", url, str(error), hint)
        ) from error
    # What the registry calls it proves nothing; the digest is that of the bytes.
    return f"{_parted(image)[0]}@sha256:{hashlib.sha256(manifest).hexdigest()}"


def _parted(image: str) -> tuple[str, str]:
    """Return the name and the tag of an image; a colon may also stand before a port."""
    folder, slash, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", tag or "latest"


def _get(url: str, headers: Mapping[str, str], trust: Path | None) -> bytes:
    try:
        return _read(url, headers, trust)
    except HTTPError as error:
        kind, _, challenge = error.headers.get("WWW-Authenticate", "").partition(" ")
        if error.code != 401 or kind.lower() != "bearer":
            raise
    asked = dict(_CHALLENGE.findall(challenge))
    realm = asked.pop("realm", "")
    # The token is anyone's; all the same it is not asked for in a less guarded way than the rest.
    if realm.partition(":")[0] not in ("https", url.partition(":")[0]):
        raise ValueError(f"the registry asks to log in at '{realm}'")
    told = json.loads(_read(f"{realm}?{urlencode(asked)}", {}, trust))
    token = told.get("token") or told.get("access_token")
    return _read(url, {**headers, "Authorization": f"Bearer {token}"}, trust)


def _read(url: str, headers: Mapping[str, str], trust: Path | None) -> bytes:
    context = ssl.create_default_context(cafile=trust)
    request = Request(url, headers=dict(headers))  # noqa: S310 - the scheme is https, or a mirror's
    with urlopen(request, timeout=_SECONDS, context=context) as answer:  # noqa: S310
        return bytes(answer.read(_MOST))
