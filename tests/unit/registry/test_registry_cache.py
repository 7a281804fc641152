"""Layers come whole out of a registry, of trusted publishers, or not at all."""

import hashlib
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import ENTRY, LAYER, SUMS, Entry, object_name
from lumicontainer.cache.shared.source import Untrusted
from lumicontainer.cache.shared.trusted import LISTED, Vouchers
from lumicontainer.cache.store import Cache
from lumicontainer.errors import DownloadError
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.send_objects import SENT
from lumicontainer.registry.transfers import THREADS
from lumicontainer.system import budget
from lumicontainer.system.connections import Connections

from ..cache.signers import allowed, new_key
from ..cache.taking import files, refused, taken
from .server import Registry, Reply
from .team_cache import put_layer, reference, send, states, trusting

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_pauses")]


def test_an_object_is_taken_byte_for_byte(
    registry: Registry, layer: Entry, own: Cache, other: Cache
) -> None:
    assert states(send([layer], own, registry)) == [SENT]
    cache = trusting(registry)
    offered = cache.entry(layer.name)
    assert offered is not None
    assert (offered.digest, offered.publisher) == (layer.digest, reference(registry).repository)
    assert files(taken(cache, layer.name, other).folder) == files(layer.folder)


def test_an_object_goes_and_comes_by_few_connections(
    registry: Registry, own: Cache, other: Cache, tmp_path: Path
) -> None:
    registry.keeps = True
    entries = [put_layer(own, tmp_path, key) for key in ("one", "two", "three")]
    send(entries, own, registry)
    # The main thread has one, and one more asks whether the registry speaks https.
    most = THREADS + 2
    assert registry.connections <= most < len(registry.requests)
    begun, asked = registry.connections, len(registry.requests)
    with Connections() as connections:
        cache = trusting(registry, connections=connections)
        for each in entries:
            taken(cache, each.name, other)
    assert registry.connections - begun <= most < len(registry.requests) - asked


def test_an_object_that_nobody_sent_is_missing(
    registry: Registry, layer: Entry, other: Cache
) -> None:
    cache = trusting(registry)
    assert cache.entry(layer.name) is None
    assert cache.doubt(layer.name, "base") is None
    refused(cache, layer.name, other, FileNotFoundError, layer.name)


def test_an_object_is_taken_of_nobody_whom_the_user_does_not_name(
    registry: Registry, layer: Entry, own: Cache, other: Cache
) -> None:
    send([layer], own, registry)
    cache = trusting(registry, Vouchers())
    assert cache.entry(layer.name) is None
    why = "it is not signed by anyone whom you trust"
    error = refused(cache, layer.name, other, Untrusted, why)
    warning = str(cache.refusal(layer.name, "base", error))
    assert f"export LUMICONTAINER_SHARED_CACHE_OWNERS=oci://{registry.host}/team/cache" in warning


def test_a_signed_object_is_taken_of_its_signer(
    registry: Registry, layer: Entry, own: Cache, other: Cache, tmp_path: Path
) -> None:
    key = new_key(tmp_path, "alice")
    send([layer], own, registry, key)
    cache = trusting(registry, Vouchers(allowed(tmp_path, key)))
    assert taken(cache, layer.name, other).publisher == "alice@example.org"


def test_a_signature_by_another_key_proves_nothing(
    registry: Registry, layer: Entry, own: Cache, other: Cache, tmp_path: Path
) -> None:
    send([layer], own, registry, new_key(tmp_path, "mallory"))
    cache = trusting(registry, Vouchers(allowed(tmp_path, new_key(tmp_path, "alice"))))
    refused(cache, layer.name, other, Untrusted, "none of the allowed signers signed it")


def test_a_signature_of_another_object_proves_nothing(
    registry: Registry, layer: Entry, own: Cache, other: Cache, tmp_path: Path
) -> None:
    key, second = new_key(tmp_path, "alice"), put_layer(own, tmp_path, "second", "other")
    send([layer, second], own, registry, key)
    good, bad = (json.loads(registry.manifests[each.name]) for each in (layer, second))
    bad["annotations"] = good["annotations"]
    registry.manifests[second.name] = json.dumps(bad).encode()
    cache = trusting(registry, Vouchers(allowed(tmp_path, key)))
    refused(cache, second.name, other, Untrusted, "none of the allowed signers signed it")


def test_a_listed_object_is_taken_and_no_other_one(
    registry: Registry, layer: Entry, own: Cache, other: Cache, tmp_path: Path
) -> None:
    second = put_layer(own, tmp_path, "second", "other")
    send([layer, second], own, registry)
    digest = hashlib.sha256((layer.folder / SUMS).read_bytes()).hexdigest()
    cache = trusting(registry, Vouchers(digests={digest}))
    refused(cache, second.name, other, Untrusted, "not signed")
    assert taken(cache, layer.name, other).publisher == LISTED


def change_byte(blob: bytes) -> bytes:
    return blob[:-1] + bytes([blob[-1] ^ 1])


@pytest.mark.parametrize("file", [LAYER, ENTRY, "files.json"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (change_byte, "has changed"),
        (lambda blob: blob[:-1], "has changed"),
        (lambda blob: blob + b"x", "it has more than"),
        (lambda _: None, "the registry does not have its"),
    ],
    ids=["poisoned", "truncated", "longer", "lost"],
)
def test_a_blob_that_differs_is_found_and_names_the_publisher(
    registry: Registry,
    layer: Entry,
    own: Cache,
    other: Cache,
    file: str,
    change: Callable[[bytes], bytes | None],
    why: str,
) -> None:
    send([layer], own, registry)
    digest = digest_of_bytes((layer.folder / file).read_bytes())
    changed = change(registry.blobs.pop(digest))
    if changed is not None:
        registry.blobs[digest] = changed
    error = refused(trusting(registry), layer.name, other, Damaged, why)
    assert f"its publisher is oci://{registry.host}/team/cache" in str(error)


def test_another_object_under_the_name_of_one_is_refused(
    registry: Registry, layer: Entry, own: Cache, other: Cache, tmp_path: Path
) -> None:
    second = put_layer(own, tmp_path, "second", "other")
    send([layer, second], own, registry)
    registry.manifests[layer.name] = registry.manifests[second.name]
    refused(trusting(registry), layer.name, other, Damaged, "it belongs to another object")


def test_a_layer_that_is_no_squashfs_is_refused_also_of_a_trusted_publisher(
    registry: Registry, own: Cache, other: Cache
) -> None:
    draft = own.draft(object_name("base", ""))
    (draft / LAYER).write_bytes(b"hsqs" + bytes(200))
    about = {"key": "base", "parent": "", "step": "base", "kind": "layer", "inputs": {}}
    entry = own.store(draft, about)
    send([entry], own, registry)
    refused(trusting(registry), entry.name, other, Damaged, f"{LAYER} is invalid")


def of_row(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["layers"][0].update(changes)


def titled(name: object) -> Callable[[dict[str, Any]], object]:
    return of_row(annotations={"org.opencontainers.image.title": name})


CHANGES: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda manifest: manifest.update(artifactType="application/vnd.lumicontainer.sif.v1"),
    lambda manifest: manifest.update(layers=None),
    lambda manifest: manifest.update(layers=[None]),
    lambda manifest: manifest.update(layers=[]),
    lambda manifest: manifest.update(layers=manifest["layers"][1:]),
    lambda manifest: manifest.update(layers=manifest["layers"] * 2),
    lambda manifest: manifest.update(layers=manifest["layers"] * 5000),
    lambda manifest: manifest.update(annotations={"org.lumicontainer.cache.signature": 1}),
    *map(
        titled, ("../evil", "/etc/passwd", "a\0b", "..", "", "a" * 256, "a\nb", "\ud800", None, 1)
    ),
    of_row(annotations=None),
    *(of_row(size=size) for size in (-1, 1 << 50, "1", None, True, 1.5)),
    *(of_row(digest=digest) for digest in ("", "md5:00", "sha256:../x", None, [])),
)


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_manifest_that_describes_no_object_is_refused(
    registry: Registry, layer: Entry, own: Cache, other: Cache, number: int, tmp_path: Path
) -> None:
    send([layer], own, registry)
    manifest = json.loads(registry.manifests[layer.name])
    CHANGES[number](manifest)
    registry.manifests[layer.name] = json.dumps(manifest).encode()
    before = sorted(os.walk(tmp_path / "own"))
    refused(trusting(registry), layer.name, other, Damaged, r"\w")
    assert sorted(os.walk(tmp_path / "own")) == before
    assert not (tmp_path / "other/evil").exists()


ANSWERS = [*(Reply(code) for code in (401, 403, 429, 500, 503)), Reply(0)]


@pytest.mark.parametrize("part", ["manifests", "blobs"])
@pytest.mark.parametrize("reply", ANSWERS, ids=lambda reply: str(reply.code))
def test_a_registry_that_fails_is_not_asked_again(
    registry: Registry, layer: Entry, own: Cache, other: Cache, part: str, reply: Reply
) -> None:
    send([layer], own, registry)
    registry.fault = lambda _, path: reply if f"/{part}/" in path else None
    cache = trusting(registry)
    error = refused(cache, layer.name, other, DownloadError, "cannot take any of the registry")
    requests = len(registry.requests)
    assert cache.entry(layer.name) is None
    refused(cache, layer.name, other, DownloadError, "cannot take any of the registry")
    assert len(registry.requests) == requests
    warning = str(cache.refusal(layer.name, "base", error))
    assert warning.startswith("warning: the build makes its layers itself")
    assert f"where: oci://{registry.host}/team/cache\n" in warning


def test_a_registry_that_sends_nothing_is_not_waited_for(
    registry: Registry,
    layer: Entry,
    own: Cache,
    other: Cache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send([layer], own, registry)
    monkeypatch.setattr(budget, "LAYER", budget.LAYER._replace(silence=1))
    ended = threading.Event()

    def hang(_: str, path: str) -> Reply | None:
        return Reply(0) if "/blobs/" in path and ended.wait(60) else None

    registry.fault = hang
    try:
        refused(trusting(registry), layer.name, other, DownloadError, "timed out")
    finally:
        ended.set()


def test_of_failures_side_by_side_the_first_is_the_reason_for_all(
    registry: Registry, layer: Entry, own: Cache, other: Cache, tmp_path: Path
) -> None:
    second = put_layer(own, tmp_path, "second", "other")
    send([layer, second], own, registry)
    first_blob, blob = (digest_of_bytes(each.layer.read_bytes()) for each in (layer, second))
    asked, failed = threading.Event(), threading.Event()

    def refuse(_: str, path: str) -> Reply | None:
        if path.endswith(blob):
            asked.set()
            return Reply(405) if failed.wait(60) else None
        return Reply(403) if path.endswith(first_blob) and asked.wait(60) else None

    registry.fault = refuse
    cache, apart = trusting(registry), Cache(tmp_path / "apart").open()
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(refused, cache, second.name, apart, DownloadError, "403")
        refused(cache, layer.name, other, DownloadError, "403")
        failed.set()
        later.result()


def test_a_transfer_that_breaks_off_goes_on(
    registry: Registry, layer: Entry, own: Cache, other: Cache
) -> None:
    send([layer], own, registry)
    content, broken = layer.layer.read_bytes(), list[str]()

    def break_once(_: str, path: str) -> Reply | None:
        if digest_of_bytes(content) not in path or broken:
            return None
        broken.append(path)
        return Reply(200, content, cut=len(content) // 2)

    registry.fault = break_once
    assert files(taken(trusting(registry), layer.name, other).folder) == files(layer.folder)
    assert len(broken) == 1
