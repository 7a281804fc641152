"""Only what is new goes to a registry, and an image gets its name at the end."""

import os
import threading
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError

from .remote_images import Times, manifest, pull, push
from .server import Registry, Reply

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_blobs")]


def test_the_blobs_joined_in_their_order_are_the_image(registry: Registry, image: Path) -> None:
    push(image, registry)
    layers: list[dict[str, str]] = manifest(registry)["layers"]  # type: ignore[assignment]
    assert len(layers) > 5
    assert b"".join(registry.blobs[each["digest"]] for each in layers) == image.read_bytes()


def test_a_second_push_sends_the_manifest_alone(registry: Registry, image: Path) -> None:
    push(image, registry)
    registry.received = 0
    assert push(image, registry, "2").sent == 0
    assert registry.received == len(registry.manifests["2"])


def test_a_first_push_does_not_ask_for_each_blob(registry: Registry, image: Path) -> None:
    assert push(image, registry).sent_blobs > 5
    assert registry.count("HEAD", "/blobs/") == 2, "the first one and the config"


def test_a_push_asks_for_each_blob_if_only_the_first_one_is_new(
    registry: Registry, image: Path
) -> None:
    push(image, registry)
    content = image.read_bytes()
    image.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert push(image, registry, "2").sent_blobs == 1


@pytest.mark.parametrize("reply", [Reply(403), Reply(404), Reply(200, b"{}")])
def test_a_registry_that_lists_no_tags_gets_no_blob_twice(
    registry: Registry, image: Path, reply: Reply
) -> None:
    push(image, registry)
    content = image.read_bytes()
    image.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    registry.fault = Times(1, "GET .*/tags/list", reply)
    assert push(image, registry, "2").sent_blobs == 1


def test_two_pushes_at_once_both_succeed(registry: Registry, image: Path) -> None:
    done = []
    threads = [
        threading.Thread(target=lambda tag=tag: done.append(push(image, registry, tag)))
        for tag in ("1", "2")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 2
    pull(registry, image.with_name("new.sif"), "2")


def test_a_registry_that_refuses_large_bodies_gets_chunks(registry: Registry, image: Path) -> None:
    registry.largest = 40_000
    push(image, registry, whole=True)
    assert registry.count("PATCH") == 4
    assert image.read_bytes() in registry.blobs.values()


def test_a_push_goes_on_when_a_dead_registry_is_back(registry: Registry, image: Path) -> None:
    registry.fault = Dying(5)
    with pytest.raises(DownloadError, match="repeat the command when the registry answers"):
        push(image, registry)
    assert registry.manifests == {}
    kept = sum(map(len, registry.blobs.values()))
    registry.fault = lambda *_: None
    assert push(image, registry).sent == len(image.read_bytes()) - kept


class Dying:
    """Answer as many uploads, then end each connection."""

    def __init__(self, uploads: int) -> None:
        self.left = uploads

    def __call__(self, method: str, _: str) -> Reply | None:
        self.left -= method == "PUT"
        return Reply(0) if self.left < 0 else None


def test_an_upload_to_a_weaker_protocol_is_refused(registry: Registry, image: Path) -> None:
    registry.fault = Times(99, "POST", Reply(202, headers={"Location": "ftp://127.0.0.1/x"}))
    with pytest.raises(DownloadError, match=r"sends an upload to 'ftp://127\.0\.0\.1/x'"):
        push(image, registry)


def test_an_image_that_changes_while_it_is_sent_is_not_named(
    registry: Registry, image: Path
) -> None:
    def fault(method: str, path: str) -> None:
        if method == "POST":
            os.truncate(image, 10)

    registry.fault = fault
    with pytest.raises(DownloadError):
        push(image, registry)
    assert registry.manifests == {}
