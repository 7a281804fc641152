"""Layers go to a registry once, whole, or with a warning that says why not."""

import threading
from pathlib import Path

import pytest

from lumicontainer.cache.objects import Entry
from lumicontainer.cache.shared.trusted import Vouchers
from lumicontainer.cache.store import Cache
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.send_objects import LEFT, PRESENT, SENT

from ..cache.signers import allowed, new_key
from ..cache.taking import files, taken
from .server import Registry, Reply
from .team_cache import put_layer, send, states, trusting

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_pauses")]


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
