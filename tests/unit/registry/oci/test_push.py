"""An image goes to a registry as an ordinary OCI image, and nothing is left if that fails."""

import gzip
import hashlib
import json
import os
from collections import namedtuple
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError, InputError, SpaceError
from lumicontainer.host.transfers import NO_LOGIN, Client
from lumicontainer.image import sif, squashfs
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.registry.failures import reporting
from lumicontainer.registry.image_name import parse_image_name
from lumicontainer.registry.oci import push as push_oci
from lumicontainer.registry.oci.config import ContainerConfig
from lumicontainer.registry.oci.push import push_oci_image
from lumicontainer.registry.push import Pushed
from lumicontainer.registry.remote_image import RemoteImage
from lumicontainer.system import budget
from lumicontainer.system.budget import Total
from lumicontainer.system.terminal.progress import Progress

from ...image.assembly.layers import Tree, write_layer
from ..server import Registry, Reply

pytestmark = pytest.mark.slow
CONFIG = ContainerConfig({"a.label": "x"}, {"PATH": "/bin", "TEXT": "two\nlines"})
BILL = b'{"bomFormat": "CycloneDX"}'


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let temporary files be in a folder of the test, and nobody wait."""
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path))
    for name in ("UPLOAD", "BLOB_STATE"):
        monkeypatch.setattr(budget, name, getattr(budget, name)._replace(pauses=()))
    return tmp_path / f"lumicontainer-{os.getuid()}"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    trees = (Tree({b"a": b"a" * 9000, b"link": "a"}), Tree({b"b": b"b" * 9000}))
    layers = [
        Source(write_layer(tmp_path / f"{number}", tree)) for number, tree in enumerate(trees)
    ]
    path = tmp_path / "image.sif"
    path.touch()
    squashfs.write_image(layers, path, sif.layout("", {"data": {}}))
    return path


def push(image: Path, registry: Registry) -> Pushed:
    name = parse_image_name(f"oci://{registry.host}/team/image:1")
    remote = RemoteImage(name, Client(None), Total(budget.IMAGE))
    with reporting("cannot push the image", name, NO_LOGIN), Progress("json") as progress:
        return push_oci_image(image, remote, progress, CONFIG, bill=BILL)


def test_the_configuration_names_the_archives_and_what_containers_get(
    registry: Registry, image: Path
) -> None:
    push(image, registry)
    manifest = json.loads(registry.manifests["1"])
    layers = [registry.blobs[each["digest"]] for each in manifest["layers"]]
    assert [each["size"] for each in manifest["layers"]] == [*map(len, layers)]
    config = json.loads(registry.blobs[manifest["config"]["digest"]])
    archives = [hashlib.sha256(gzip.decompress(each)).hexdigest() for each in layers]
    assert len(archives) == 3
    assert config["rootfs"]["diff_ids"] == [f"sha256:{each}" for each in archives]
    assert config["config"] == {
        "Env": ["PATH=/bin", "TEXT=two\nlines"],
        "Entrypoint": ["/opt/lumicontainer/bin/lumi-entry"],
        "Labels": {"a.label": "x"},
    }


def test_an_archive_of_many_chunks_is_one_stream_of_gzip(
    registry: Registry, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(image, registry)
    whole = {gzip.decompress(each) for each in registry.blobs.values() if each[:2] == b"\x1f\x8b"}
    registry.blobs.clear()
    monkeypatch.setattr(push_oci, "_CHUNK", 1000)
    push(image, registry)
    assert whole == {
        gzip.decompress(each) for each in registry.blobs.values() if each[:2] == b"\x1f\x8b"
    }


def test_an_image_is_sent_once_and_has_one_digest(registry: Registry, image: Path) -> None:
    first = push(image, registry)
    assert first.sent == first.size
    assert push(image, registry) == first._replace(sent=0, sent_blobs=0)


def test_the_bill_of_materials_is_a_referrer(registry: Registry, image: Path) -> None:
    digest = push(image, registry).digest
    (row,) = json.loads(registry.manifests[digest.replace(":", "-")])["manifests"]
    assert row["artifactType"] == "application/vnd.cyclonedx+json"


@pytest.mark.parametrize("pattern", ["POST", "PUT"])
def test_a_push_that_fails_names_no_image_and_leaves_no_file(
    registry: Registry, image: Path, scratch: Path, pattern: str
) -> None:
    registry.fault = lambda method, _: Reply(503) if method == pattern else None
    with pytest.raises(DownloadError, match="repeat the command when the registry answers"):
        push(image, registry)
    assert registry.manifests == {}
    assert [each.name for each in scratch.iterdir()] == [".guard"]


def test_a_push_without_space_for_the_layers_is_not_begun(
    registry: Registry, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")(1000)
    monkeypatch.setattr(push_oci.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(SpaceError, match=r"(?s)no space for the layers.*LUMICONTAINER_TMPDIR"):
        push(image, registry)
    assert registry.count("POST") == 0


def test_a_damaged_block_ends_the_push(registry: Registry, image: Path, scratch: Path) -> None:
    content = bytearray(image.read_bytes())
    place = sif.root(image).offset + 96
    content[place : place + 8] = b"\xff" * 8
    image.write_bytes(content)
    with pytest.raises(InputError, match="cannot read the file system"):
        push(image, registry)
    assert registry.manifests == {}
    assert [each.name for each in scratch.iterdir()] == [".guard"]
