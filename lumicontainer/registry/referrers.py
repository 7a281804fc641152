"""Attach the bill of materials to an image in a registry, as a referrer of OCI 1.1.

A registry that does not list referrers itself gets an index under the tag ``sha256-…``, where
clients look then (OCI distribution specification, "Referrers Tag Schema").
"""

import json
from typing import Any
from urllib.error import HTTPError

from lumicontainer.host.transfers import json_object
from lumicontainer.registry.artifacts import CONFIG, EMPTY, INDEX, MANIFEST
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.remote_image import RemoteImage, content_of

CYCLONEDX = "application/vnd.cyclonedx+json"
_ATTEMPTS = 10
_REPLACED = 412


def attach_bill(bill: bytes, remote: RemoteImage, manifest: bytes) -> None:
    """Attach a bill of materials to the image of a ``manifest``."""
    referrer = _write_referrer(bill, manifest)
    for content in (bill, CONFIG):
        remote.send_missing(content_of(content))
    digest = digest_of_bytes(referrer)
    if "OCI-Subject" not in remote.put_manifest(referrer, digest):
        row = {**_described(MANIFEST, referrer), "artifactType": CYCLONEDX}
        _list_referrer(remote, digest_of_bytes(manifest).replace(":", "-"), row)


def _write_referrer(bill: bytes, manifest: bytes) -> bytes:
    content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": CYCLONEDX,
        "config": _described(EMPTY, CONFIG),
        "layers": [_described(CYCLONEDX, bill)],
        "subject": _described(MANIFEST, manifest),
    }
    return json.dumps(content).encode()


def _described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest_of_bytes(content), "size": len(content)}


def _list_referrer(remote: RemoteImage, tag: str, row: dict[str, Any]) -> None:
    """Add a row to the index of referrers, which other programs may replace at the same time.

    A registry that knows ETags refuses an index that was not made of its newest one. Elsewhere
    the last index wins: so the row is looked for after it was written, and written again.
    """
    for _ in range(_ATTEMPTS):
        rows, etag = _read_index(remote, tag)
        if row in rows:
            return
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*rows, row]}
        try:
            remote.put_manifest(json.dumps(index).encode(), tag, INDEX, etag=etag)
        except HTTPError as error:
            if error.code != _REPLACED:
                raise
            error.close()
    raise ValueError(f"other programs replaced its list of referrers {_ATTEMPTS} times: {tag}")


def _read_index(remote: RemoteImage, tag: str) -> tuple[list[Any], str]:
    """Return the rows of an index and its ETag; none if there is no index."""
    try:
        body, headers = remote.read_tag(tag)
    except HTTPError as error:
        if error.code != 404:
            raise
        error.close()
        return [], ""
    rows, etag = json_object(body).get("manifests"), headers.get("ETag", "")
    # A weak ETag, such as W/"x", matches nothing.
    return rows if isinstance(rows, list) else [], etag if etag.startswith('"') else ""
