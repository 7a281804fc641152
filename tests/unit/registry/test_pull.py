"""Images come whole out of a registry, whatever it answers."""

import errno
import os
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError, LumicontainerError, SpaceError
from lumicontainer.host.transfers import Client
from lumicontainer.registry.artifacts import SHA256, SIZE
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.image_name import parse_image_name
from lumicontainer.registry.pull import pull_image
from lumicontainer.registry.push import push_image
from lumicontainer.registry.remote_image import RemoteImage
from lumicontainer.registry.transfers import THREADS
from lumicontainer.system import budget
from lumicontainer.system.budget import Total
from lumicontainer.system.connections import Connections
from lumicontainer.system.terminal.progress import Progress

from .remote_images import change, edit, left, manifest, pull, push, refused_pull
from .server import Registry

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_blobs")]


@pytest.mark.parametrize("whole", [False, True])
def test_an_image_comes_back_as_it_was(registry: Registry, image: Path, whole: bool) -> None:
    pushed = push(image, registry, whole=whole)
    pulled = pull(registry, image.with_name("new.sif"))
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()
    assert pushed.digest == pulled.digest == digest_of_bytes(registry.manifests["1"])
    assert pushed.blobs == pulled.blobs
    assert (pushed.blobs == 1) == whole
    assert pulled.fetched == pushed.sent == len(image.read_bytes())
    assert left(image.parent) == []
    assert image.with_name("new.sif").stat().st_mode & 0o100


def test_each_thread_has_one_connection(registry: Registry, image: Path) -> None:
    registry.keeps = True
    with Connections() as connections, Progress("json") as progress:
        client = Client(None, connections=connections)
        name = parse_image_name(f"oci://{registry.host}/team/image:1")
        remote = RemoteImage(name, client, Total(budget.IMAGE))
        push_image(image, remote, progress, whole=False)
        pull_image(remote, image.with_name("new.sif"), progress)
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()
    assert len(registry.requests) > 30
    # One more asks whether the registry speaks https, and is refused.
    assert registry.connections <= THREADS + 1


def test_only_changed_blobs_are_sent_and_fetched(registry: Registry, image: Path) -> None:
    push(image, registry)
    older = image.with_name("older.sif")
    older.write_bytes(image.read_bytes())
    most = change(image)
    assert 0 < push(image, registry, "2").sent < most
    assert 0 < pull(registry, older, "2").fetched < most
    assert older.read_bytes() == image.read_bytes()


def test_an_image_that_is_there_is_not_fetched(registry: Registry, image: Path) -> None:
    push(image, registry)
    before = image.stat()
    assert pull(registry, image).fetched == 0
    assert image.stat() == before
    assert registry.count("GET", "/blobs/") == 0


def test_an_image_is_pulled_by_its_digest_when_its_tag_has_moved(
    registry: Registry, image: Path
) -> None:
    first, content = push(image, registry), image.read_bytes()
    change(image)
    push(image, registry)
    pull(registry, image.with_name("new.sif"), first.digest)
    assert image.with_name("new.sif").read_bytes() == content


def largest(registry: Registry) -> str:
    return max(registry.blobs, key=lambda each: len(registry.blobs[each]))


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(
    ("poison", "words"),
    {
        "changed": (lambda blob: b"X" + blob[1:], "does not have its digest"),
        "cut short": (lambda blob: blob[:-5], "does not have its digest"),
        "empty": (lambda _: b"", "does not have its digest"),
        "longer": (lambda blob: blob + b"x" * 20_000, "more than"),
    }.values(),
)
def test_a_blob_with_other_bytes_is_refused(
    registry: Registry, image: Path, poison: object, words: str, older: bool
) -> None:
    push(image, registry)
    name = largest(registry)
    registry.blobs[name] = poison(registry.blobs[name])  # type: ignore[operator]
    output = image.with_name("new.sif")
    if older:
        output.write_bytes(b"the old image")
    refused_pull(registry, output, words)


def test_a_missing_blob_is_named_by_the_answer(registry: Registry, image: Path) -> None:
    push(image, registry)
    del registry.blobs[largest(registry)]
    refused_pull(registry, image.with_name("new.sif"), "404 .*: unknown to it")


def test_swapped_blobs_are_not_the_image(registry: Registry, image: Path) -> None:
    push(image, registry)
    layers: list[object] = manifest(registry)["layers"]  # type: ignore[assignment]
    edit(registry, layers=[layers[1], layers[0], *layers[2:]])
    refused_pull(registry, image.with_name("new.sif"), "the image does not have its sha256")
    assert left(image.parent) == []


def test_a_wrong_size_of_a_blob_is_refused(registry: Registry, image: Path) -> None:
    push(image, registry)
    first, *rest = manifest(registry)["layers"]  # type: ignore[misc]
    layers = [{**first, "size": first["size"] - 1}, *rest]
    sums = {SIZE: str(len(image.read_bytes()) - 1), SHA256: "0" * 64}
    edit(registry, layers=layers, annotations=sums)
    refused_pull(registry, image.with_name("new.sif"), "more than")


def test_a_manifest_with_another_digest_is_refused(registry: Registry, image: Path) -> None:
    digest = push(image, registry).digest
    registry.manifests[digest] = registry.manifests[digest] + b" "
    with pytest.raises(DownloadError, match="the manifest does not have its digest"):
        pull(registry, image.with_name("new.sif"), digest)


def test_a_full_disk_ends_a_pull_and_keeps_nothing(
    registry: Registry, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(image, registry)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(SpaceError):
        pull(registry, image.with_name("new.sif"))
    assert left(image.parent) == []
    assert not image.with_name("new.sif").exists()


def test_an_image_larger_than_the_free_space_is_not_begun(registry: Registry, image: Path) -> None:
    push(image, registry)
    layers: list[dict[str, object]] = manifest(registry)["layers"]  # type: ignore[assignment]
    edit(registry, layers=[{**layers[0], "size": 200 << 30}], annotations={SHA256: "0" * 64})
    with pytest.raises(LumicontainerError, match=r"no space for the image"):
        pull(registry, image.with_name("new.sif"))
    assert registry.count("GET", "/blobs/") == 0
