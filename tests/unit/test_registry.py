"""Every byte of an image has the digest by which it was asked for."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError
from lumicontainer.host.registry import save_image

from .test_fetch import serving

AMD64 = {"os": "linux", "architecture": "amd64"}


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry:
    """Serve one image from a folder."""

    def __init__(self, folder: Path, host: str) -> None:
        self.folder, self.image = folder / "v2/one", f"{host}/one"
        for kind in ("manifests", "blobs"):
            (self.folder / kind).mkdir(parents=True)

    def add(self, kind: str, name: str, content: bytes) -> str:
        """Serve content by a name; return the name."""
        (self.folder / kind / name).write_bytes(content)
        return name

    def add_manifest(self, layer: str) -> bytes:
        """Serve a manifest with one layer by its digest; return it."""
        config = json.dumps({"config": {"Env": ["A=b"]}}).encode()
        digest = self.add("blobs", sha256(config), config)
        rows = {"config": {"digest": digest}, "layers": [{"digest": layer}]}
        manifest = json.dumps(rows).encode()
        self.add("manifests", sha256(manifest), manifest)
        return manifest

    def saved(self, tag: str, folder: Path) -> bytes:
        """Return the content of the layer that is downloaded."""
        folder.mkdir()
        found = save_image(f"{self.image}{tag}", folder, plain=True, trust=None)
        assert found.environment == ["A=b"]
        (layer,) = found.layers
        return layer.read_bytes()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with serving(tmp_path) as url:
        yield Registry(tmp_path, url.removeprefix("http://").rstrip("/"))


def test_an_image_is_found_by_its_tag_and_by_its_digest(registry: Registry, tmp_path: Path) -> None:
    manifest = registry.add_manifest(registry.add("blobs", sha256(b"layer"), b"layer"))
    row = {"platform": AMD64, "digest": sha256(manifest)}
    registry.add("manifests", "new", json.dumps({"manifests": [row]}).encode())
    assert registry.saved(":new", tmp_path / "a") == b"layer"
    assert registry.saved(f"@{sha256(manifest)}", tmp_path / "b") == b"layer"


@pytest.mark.parametrize("digest", [f"sha512:{hashlib.sha512(b'x').hexdigest()}", "layer"])
def test_a_layer_without_a_digest_by_sha256_is_refused(
    digest: str, registry: Registry, tmp_path: Path
) -> None:
    manifest = registry.add_manifest(registry.add("blobs", digest, b"another"))
    with pytest.raises(DownloadError, match=f"expected a digest by sha256, got '{digest}'"):
        registry.saved(f"@{sha256(manifest)}", tmp_path / "layers")


def test_an_index_names_its_images_by_digests(registry: Registry, tmp_path: Path) -> None:
    layer = registry.add("blobs", sha256(b"layer"), b"layer")
    registry.add("manifests", "tag", registry.add_manifest(layer))
    index = json.dumps({"manifests": [{"platform": AMD64, "digest": "tag"}]}).encode()
    registry.add("manifests", sha256(index), index)
    with pytest.raises(DownloadError, match="expected a digest by sha256, got 'tag'"):
        registry.saved(f"@{sha256(index)}", tmp_path / "layers")
