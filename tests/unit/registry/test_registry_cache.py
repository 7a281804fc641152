"""Layers come whole out of a registry, of trusted publishers, or not at all."""

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import ENTRY, LAYER, SUMS, Entry, object_name
from lumicontainer.cache.shared.source import Untrusted
from lumicontainer.cache.shared.trusted import LISTED, Vouchers
from lumicontainer.cache.store import Cache
from lumicontainer.errors import DownloadError
from lumicontainer.image.squashfs import pack_as_root
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.image_name import ImageName, parse_repository
from lumicontainer.registry.registry_cache import RegistryCache
from lumicontainer.registry.send_objects import LEFT, PRESENT, SENT, SentObjects, send_objects
from lumicontainer.registry.transfers import THREADS
from lumicontainer.system import budget, flock
from lumicontainer.system.connections import Connections
from lumicontainer.system.terminal.progress import Progress

from ...faults.test_shared_cache import allowed, files, new_key
from .server import Registry, Reply

pytestmark = pytest.mark.slow
TRANSFERS = ("MANIFEST", "TOKEN", "LAYER", "BLOB_STATE", "UPLOAD")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait."""
    for name in TRANSFERS:
        limits = getattr(budget, name)._replace(pauses=(0,), longest_pause=1)
        monkeypatch.setattr(budget, name, limits)


@pytest.fixture
def own(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "own").open()


@pytest.fixture
def other(tmp_path: Path) -> Cache:
    """Return the cache of somebody who takes."""
    return Cache(tmp_path / "other").open()


@pytest.fixture
def layer(own: Cache, tmp_path: Path) -> Entry:
    return put_layer(own, tmp_path)


def put_layer(store: Cache, folder: Path, key: str = "base", text: str = "hello") -> Entry:
    """Store a real layer as a build does."""
    tree = folder / f"tree-{key}"
    tree.mkdir()
    (tree / "greeting").write_text(text)
    draft = store.draft(object_name(key, ""))
    pack_as_root(tree, draft / LAYER, "zstd")
    (draft / "files.json").write_text("{}\n")
    about = {"key": key, "parent": "", "step": key, "kind": "layer", "inputs": {}}
    return store.store(draft, about)


def reference(registry: Registry) -> ImageName:
    return parse_repository(f"oci://{registry.host}/team/cache", "--cache-to")


def send(entries: list[Entry], store: Cache, registry: Registry, key: str = "") -> SentObjects:
    with Progress("json") as progress:
        return send_objects(entries, store, reference(registry), key, progress)


def states(sent: SentObjects) -> list[str]:
    return [each.state for each in sent.objects]


def trusting(
    registry: Registry, vouchers: Vouchers | None = None, connections: Connections | None = None
) -> RegistryCache:
    """Return the cache as somebody sees it who trusts all its writers, or these alone."""
    words = (reference(registry), vouchers or Vouchers(), connections)
    return RegistryCache(*words, trusts_writers=vouchers is None)


def taken(cache: RegistryCache, name: str, store: Cache) -> Entry:
    """Take an object as a build does, with the lock for making it held."""
    with flock.attempt(store.make_lock(name)) as held:
        assert held
        return cache.take(name, store)


def refused(
    cache: RegistryCache, name: str, store: Cache, kind: type[Exception], why: str
) -> Exception:
    """See that an object is not taken, and leaves nothing; return the error."""
    with pytest.raises(kind, match=why) as raised:
        taken(cache, name, store)
    assert list((store.root / "objects").iterdir()) == []
    return raised.value


# The way there and back


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


def test_what_is_there_already_is_not_sent(registry: Registry, layer: Entry, own: Cache) -> None:
    send([layer], own, registry)
    registry.received = 0
    assert states(send([layer], own, registry)) == [PRESENT]
    assert registry.received == 0


def test_what_is_no_object_is_replaced(
    registry: Registry, layer: Entry, own: Cache, other: Cache
) -> None:
    registry.manifests[layer.name] = b"{}"
    assert states(send([layer], own, registry)) == [SENT]
    assert taken(trusting(registry), layer.name, other).digest == layer.digest


def test_a_file_that_the_registry_lost_is_sent_again_and_the_signature_stays(
    registry: Registry, layer: Entry, own: Cache, other: Cache, tmp_path: Path
) -> None:
    key = new_key(tmp_path, "alice")
    send([layer], own, registry, key)
    del registry.blobs[digest_of_bytes(layer.layer.read_bytes())]
    assert states(send([layer], own, registry)) == [SENT]
    cache = trusting(registry, Vouchers(allowed(tmp_path, key)))
    assert taken(cache, layer.name, other).publisher == "alice@example.org"


def test_an_object_that_nobody_sent_is_missing(
    registry: Registry, layer: Entry, other: Cache
) -> None:
    cache = trusting(registry)
    assert cache.entry(layer.name) is None
    assert cache.doubt(layer.name, "base") is None
    refused(cache, layer.name, other, FileNotFoundError, layer.name)


def test_eight_who_send_and_take_the_same_at_once_get_it_whole(
    registry: Registry, layer: Entry, own: Cache, tmp_path: Path
) -> None:
    together, wrong = threading.Barrier(8), list[int]()

    def work(number: int) -> None:
        store = Cache(tmp_path / f"cache-{number}").open()
        together.wait()
        send([layer], own, registry)
        if files(taken(trusting(registry), layer.name, store).folder) != files(layer.folder):
            wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    assert len(list(tmp_path.glob("cache-*/objects/*"))) == 8


def test_a_damaged_object_of_the_own_cache_is_not_sent(
    registry: Registry, layer: Entry, own: Cache
) -> None:
    layer.layer.write_bytes(b"x" + layer.layer.read_bytes()[1:])
    sent = send([layer], own, registry)
    assert states(sent) == [LEFT]
    assert "lumicontainer cache verify" in str(sent.problem)
    assert registry.manifests == {}


# Trust


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


# Bytes that are not what was sent


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


# A registry that does not answer


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


@pytest.mark.parametrize("code", [401, 403, 405, 429, 500, 503, 507])
def test_what_was_not_sent_is_said(
    registry: Registry, layer: Entry, own: Cache, tmp_path: Path, code: int
) -> None:
    second = put_layer(own, tmp_path, "second", "other")
    send([layer], own, registry)
    registry.fault = lambda method, _: Reply(code) if method == "POST" else None
    sent = send([layer, second], own, registry)
    assert states(sent) == [PRESENT, LEFT]
    assert f"warning: cannot send layers to the registry\n  where: oci://{registry.host}/" in str(
        sent.problem
    )
    assert f"the registry answers {code}" in str(sent.problem)
    assert second.name not in registry.manifests
