"""The manifests of images in registries: write one, and read one of anybody.

An artifact is an image manifest of OCI 1.1 with its own ``artifactType``. Its layers are the blobs
of ``cutting``, in their order. Apptainer's and SingularityCE's artifact, which ``oras://`` names,
has one layer.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.errors import DownloadError, Problem
from lumicontainer.host.transfers import json_object
from lumicontainer.registry.cutting import CutImage, Piece, digest_of_bytes
from lumicontainer.system import budget

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
ACCEPTED = ", ".join((MANIFEST, INDEX, _DOCKER, _DOCKER_INDEX))
ARTIFACT = "application/vnd.lumicontainer.sif.v1"
PART = "application/vnd.lumicontainer.sif.part.v1"
SIF = "application/vnd.sylabs.sif.layer.v1.sif"
_SIF_CONFIG = "application/vnd.sylabs.sif.config.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
CONFIG = b"{}"
TITLE = "org.opencontainers.image.title"
SHA256, SIZE = "org.lumicontainer.sif.sha256", "org.lumicontainer.sif.size"
LAYERS = "org.lumicontainer.sif.layers"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_SHA256 = re.compile(r"\b[0-9a-f]{64}\b")
_MOST_PARTS = 50_000


class Artifact(NamedTuple):
    """Hold the blobs of an image, and the size and the sha256 of the whole."""

    pieces: Sequence[Piece]
    size: int
    sha256: str
    layers: Sequence[str] = ()
    """The sha256 of the squashfs of each layer that was assembled; a cache may have some."""


def write_manifest(image: CutImage, name: str, *, whole: bool, layers: Sequence[str] = ()) -> bytes:
    """Return the manifest of an image whose file has a ``name``; equal images have equal ones.

    ``whole`` writes what engines read: one layer. ``layers`` are those of an ``Artifact``.
    """
    kind = SIF if whole else PART
    config = {"mediaType": _SIF_CONFIG if whole else EMPTY, **_described(CONFIG)}
    rows: list[dict[str, Any]] = [
        {"mediaType": kind, "digest": each.digest, "size": each.size} for each in image.pieces
    ]
    if whole:
        rows[0]["annotations"] = {TITLE: name}
    sums = {SHA256: image.sha256, SIZE: str(image.size), TITLE: name}
    if layers and not whole:
        sums[LAYERS] = ",".join(layers)
    head = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": _SIF_CONFIG if whole else ARTIFACT,
    }
    manifest = json.dumps({**head, "config": config, "layers": rows, "annotations": sums}).encode()
    if len(manifest) > budget.MANIFEST.most:
        why, hint = "its manifest has more than 4 MiB", "push it with --format sif"
        raise DownloadError(Problem("cannot push an image of so many blobs", why=why, hint=hint))
    return manifest


def _described(content: bytes) -> dict[str, Any]:
    return {"digest": digest_of_bytes(content), "size": len(content)}


def read_manifest(body: bytes, where: str) -> Artifact:
    """Return the image that a manifest describes; raise ``DownloadError`` if it describes none."""
    manifest = json_object(body)
    layers = manifest.get("layers")
    kinds = {each.get("mediaType") for each in _rows(layers)}
    if isinstance(layers, list) and kinds in ({PART}, {SIF}) and len(layers) <= _MOST_PARTS:
        if kinds == {SIF} and len(layers) > 1:
            raise _invalid(where, f"it has {len(layers)} layers of an image file, expected one")
        return _artifact(_rows(layers), manifest.get("annotations"), where)
    ordinary = "manifests" in manifest or any("tar" in str(each) for each in kinds)
    if ordinary:
        why = "it is an ordinary OCI image, not an image file"
        hint = f"apptainer pull {where.replace('oci://', 'docker://')}"
    else:
        shown = ", ".join(sorted(f"{each!a:.80}" for each in kinds)) or "no layers"
        why, hint = f"expected {PART} or {SIF}, got {shown}", "check its name and its tag"
    raise DownloadError(Problem("the registry has no image file there", where, why, hint))


def _rows(layers: object) -> list[dict[str, Any]]:
    rows = layers if isinstance(layers, list) else []
    return [each if isinstance(each, dict) else {} for each in rows]


def _artifact(rows: Sequence[Mapping[str, Any]], sums: object, where: str) -> Artifact:
    pieces, place = [], 0
    for row in rows:
        digest, size = row.get("digest"), row.get("size")
        match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
        if match is None:
            raise _invalid(where, f"expected a digest by sha256, got {digest!a:.200}")
        if type(size) is not int or size <= 0:
            raise _invalid(where, f"expected a size in bytes, got {size!a:.200}")
        pieces.append(Piece(place, size, match[1]))
        place += size
    if place > budget.IMAGE.most:
        raise _invalid(where, f"its blobs have {place} bytes, expected at most {budget.IMAGE.most}")
    annotations = sums if isinstance(sums, dict) else {}
    stated = annotations.get(SIZE, str(place))
    if stated != str(place):
        raise _invalid(where, f"it states {stated!a:.40} bytes, and its blobs have {place}")
    # The artifact of an engine has no annotations: its one blob is the whole.
    sha256 = annotations.get(SHA256, pieces[0].sha256 if len(pieces) == 1 else "")
    if not isinstance(sha256, str) or not _DIGEST.fullmatch(f"sha256:{sha256}"):
        raise _invalid(where, f"it states no sha256 of the image: {SHA256} is {sha256!a:.80}")
    layers = _SHA256.findall(str(annotations.get(LAYERS, "")))
    return Artifact(pieces, place, sha256, tuple(layers))


def _invalid(where: str, why: str) -> DownloadError:
    hint = "push the image again, or name another one"
    return DownloadError(Problem("the registry sent an invalid manifest", where, why, hint))
