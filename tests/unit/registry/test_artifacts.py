"""A manifest says which blobs are an image; one of anybody is not believed."""

import json
from typing import Any

import pytest

from lumicontainer.errors import DownloadError
from lumicontainer.registry.artifacts import PART, SHA256, SIF, SIZE, read_manifest, write_manifest
from lumicontainer.registry.cutting import CutImage, Piece

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
IMAGE = CutImage((Piece(0, 3, A), Piece(3, 5, B)), 8, C)


def manifest(**changes: Any) -> dict[str, Any]:
    return {**json.loads(write_manifest(IMAGE, "x.sif", whole=False)), **changes}


def row(**changes: Any) -> dict[str, Any]:
    return {"mediaType": PART, "digest": f"sha256:{A}", "size": 3, **changes}


def test_a_manifest_that_was_written_is_read() -> None:
    body = write_manifest(IMAGE, "x.sif", whole=False, layers=[A, C])
    assert read_manifest(body, "oci://h/a:1") == ([*IMAGE.pieces], 8, C, (A, C))


def test_the_artifact_of_an_engine_is_one_blob_without_annotations() -> None:
    body = json.dumps({"schemaVersion": 2, "layers": [row(mediaType=SIF)]}).encode()
    assert read_manifest(body, "oci://h/a:1") == ([Piece(0, 3, A)], 3, A, ())


def test_equal_images_have_equal_manifests() -> None:
    first = write_manifest(IMAGE, "x.sif", whole=False)
    assert first == write_manifest(IMAGE, "x.sif", whole=False)


SUMS = {SHA256: C, SIZE: "8"}


@pytest.mark.parametrize(
    ("body", "words"),
    {
        "no JSON": (b"<html>", "no image file"),
        "a list": (b"[]", "no image file"),
        "layers as text": (manifest(layers="x"), "no image file"),
        "layers without kinds": (manifest(layers=[1, None]), "no image file"),
        "mixed kinds": (manifest(layers=[row(), row(mediaType=SIF)]), "no image file"),
        "a foreign kind": (manifest(layers=[row(mediaType="text/x\x1b[2J")]), r"x\\x1b\[2J"),
        "an ordinary image": (
            manifest(layers=[row(mediaType="application/vnd.oci.image.layer.v1.tar+gzip")]),
            "apptainer pull docker://h/a:1",
        ),
        "an index": ({"schemaVersion": 2, "manifests": []}, "apptainer pull docker://h/a:1"),
        "two image files": (manifest(layers=[row(mediaType=SIF)] * 2), "2 layers"),
        "a digest by sha512": (manifest(layers=[row(digest="sha512:12")]), "by sha256"),
        "a digest in capitals": (manifest(layers=[row(digest=f"sha256:{'A' * 64}")]), "by sha256"),
        "no size": (manifest(layers=[row(size=None)]), "expected a size"),
        "a negative size": (manifest(layers=[row(size=-3)]), "expected a size"),
        "a size as text": (manifest(layers=[row(size="3")]), "expected a size"),
        "a size that is true": (manifest(layers=[row(size=True)]), "expected a size"),
        "an enormous size": (manifest(layers=[row(size=1 << 60)]), "expected at most"),
        "another whole size": (manifest(annotations={**SUMS, SIZE: "9"}), "states '9' bytes"),
        "no sha256": (manifest(annotations={SIZE: "8"}), "states no sha256"),
        "sums as a list": (manifest(annotations=[]), "states no sha256"),
    }.values(),
)
def test_a_manifest_of_something_else_is_refused(body: bytes | dict[str, Any], words: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(DownloadError, match=words):
        read_manifest(content, "oci://h/a:1")
