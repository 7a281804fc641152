"""A pull takes what an earlier one left or the cache has, and believes none of it."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from lumicontainer.cache.objects import LAYER, Entry, object_name
from lumicontainer.cache.store import Cache
from lumicontainer.image.assembly.layout import SUPERBLOCK_SIZE
from lumicontainer.registry.pull import Pulled, pull_image
from lumicontainer.registry.push import push_image
from lumicontainer.system.terminal.progress import Progress

from ..image.assembly.layers import Tree, write_layer
from ..image.test_image_copy import write_image
from ..terminals import until
from .remote_images import Times, left, manifest, pull, push, refused_pull, remote
from .server import Registry, Reply
from .test_cutting import own_bytes

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_blobs")]


def put_random_layer(store: Cache, seed: int) -> Entry:
    """Store a layer of random files as a build does."""
    chance, key = Random(seed), f"layer-{seed}"
    draft = store.draft(object_name(key, ""))
    write_layer(
        draft / LAYER, Tree({b"%d-%d" % (seed, n): chance.randbytes(9000) for n in range(4)})
    )
    about = {"key": key, "parent": "", "step": key, "kind": "layer", "inputs": {}}
    return store.store(draft, about)


def push_assembled(registry: Registry, image: Path, entries: Sequence[Entry]) -> None:
    """Push an image that is assembled of cached layers."""
    write_image(image, [each.layer for each in entries])
    layers = [each.sha256(LAYER) for each in entries]
    with Progress("json") as progress:
        push_image(image, remote(registry), progress, whole=False, layers=layers)


def pull_with(store: Cache, registry: Registry, output: Path) -> Pulled:
    with Progress("json") as progress:
        return pull_image(remote(registry), output, progress, store)


def test_the_data_of_cached_layers_are_not_fetched(
    registry: Registry, image: Path, own: Cache
) -> None:
    entries = [put_random_layer(own, 1), put_random_layer(own, 2)]
    push_assembled(registry, image, entries)
    assert own.remove(entries[0].name)
    pulled = pull_with(own, registry, image.with_name("new.sif"))
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()
    assert pulled.fetched == own_bytes(image) + 4 * 9000


def test_what_the_cache_has_is_not_believed(registry: Registry, image: Path, own: Cache) -> None:
    entry = put_random_layer(own, 1)
    push_assembled(registry, image, [entry])
    with entry.layer.open("r+b") as file:
        file.seek(SUPERBLOCK_SIZE)
        file.write(b"evil")
    pulled = pull_with(own, registry, image.with_name("new.sif"))
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()
    assert own_bytes(image) < pulled.fetched < pulled.size


def test_a_pull_goes_on_where_a_failed_one_ended(registry: Registry, image: Path) -> None:
    push(image, registry)
    output, content = image.with_name("new.sif"), image.read_bytes()
    last = manifest(registry)["layers"][-1]  # type: ignore[index]
    first = content[: -last["size"]]

    def fail_once_the_others_have_come(_: str, path: str) -> Reply | None:
        if not path.endswith(last["digest"]):
            return None
        (draft,) = left(output.parent)
        until(lambda: output.with_name(draft).read_bytes().startswith(first))
        return Reply(404)

    registry.fault = fail_once_the_others_have_come
    refused_pull(registry, output, "404")
    assert len(left(output.parent)) == 1
    registry.fault = lambda *_: None
    assert pull(registry, output).fetched == last["size"]
    assert output.read_bytes() == image.read_bytes()
    assert left(output.parent) == []


@pytest.mark.parametrize("ranges", [True, False])
def test_one_large_blob_goes_on_within_it(registry: Registry, image: Path, ranges: bool) -> None:
    push(image, registry, whole=True)
    content = image.read_bytes()
    registry.ranges = ranges
    registry.fault = Times(9, "GET .*/blobs/", Reply(200, content, {}, 60_000))
    refused_pull(registry, image.with_name("new.sif"), r"expected 100000 bytes|IncompleteRead")
    registry.fault = lambda *_: None
    pulled = pull(registry, image.with_name("new.sif"))
    assert image.with_name("new.sif").read_bytes() == content
    assert (pulled.fetched < 50_000) == ranges


def test_what_a_pull_left_is_not_believed(registry: Registry, image: Path) -> None:
    push(image, registry, whole=True)
    output = image.with_name("new.sif")
    output.with_name(f".{output.name}.partial-pull-x").write_bytes(bytes(70_000))
    pull(registry, output)
    assert output.read_bytes() == image.read_bytes()
