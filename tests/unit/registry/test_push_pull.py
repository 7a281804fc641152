"""Images come whole out of a registry, whatever it answers, and only what is new goes there."""

import errno
import json
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random

import pytest

from lumicontainer.cache.objects import LAYER, Entry, object_name
from lumicontainer.cache.store import Cache
from lumicontainer.errors import DownloadError, LumicontainerError, SpaceError
from lumicontainer.host.transfers import NO_LOGIN, Client, Login
from lumicontainer.image.assembly.layout import SUPERBLOCK_SIZE
from lumicontainer.registry import cutting, remote_image
from lumicontainer.registry.artifacts import SHA256, SIZE
from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.failures import reporting
from lumicontainer.registry.image_name import parse_image_name
from lumicontainer.registry.pull import Pulled, pull_image
from lumicontainer.registry.push import Pushed, push_image
from lumicontainer.registry.referrers import attach_bill
from lumicontainer.registry.remote_image import RemoteImage
from lumicontainer.registry.transfers import THREADS
from lumicontainer.system import budget
from lumicontainer.system.budget import Total
from lumicontainer.system.connections import Connections
from lumicontainer.system.terminal.progress import Progress

from ..image.assembly.layers import Tree, write_layer
from ..image.test_image_copy import write_image
from ..terminals import until
from .server import Registry, Reply, serving
from .test_cutting import own_bytes

pytestmark = pytest.mark.slow
TRANSFERS = ("MANIFEST", "TOKEN", "LAYER", "BLOB_STATE", "UPLOAD")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let images of 100 KB have many blobs, and let nobody wait."""
    monkeypatch.setattr(cutting, "REACH", 2048)
    monkeypatch.setattr(cutting, "MOST", 16384)
    monkeypatch.setattr(cutting, "_SMALLEST", 512)
    monkeypatch.setattr(cutting, "_MARK", re.compile(rb"[\xC0\xDE][\x00-\x0f]"))
    monkeypatch.setattr(remote_image, "_CHUNK", 30_000)
    for name in TRANSFERS:
        limits = getattr(budget, name)._replace(pauses=(0, 0, 0), longest_pause=1)
        monkeypatch.setattr(budget, name, limits)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.sif"
    path.write_bytes(Random(1).randbytes(100_000))
    return path


def remote(registry: Registry, tag: str = "1", login: Login = NO_LOGIN) -> RemoteImage:
    mark = "@" if tag.startswith("sha256:") else ":"
    name = parse_image_name(f"oci://{registry.host}/team/image{mark}{tag}")
    return RemoteImage(name, Client(None, login), Total(budget.IMAGE))


def push(
    image: Path, registry: Registry, tag: str = "1", *, whole: bool = False, login: Login = NO_LOGIN
) -> Pushed:
    name = parse_image_name(f"oci://{registry.host}/team/image:{tag}")
    with reporting("cannot push the image", name, login), Progress("json") as progress:
        return push_image(image, remote(registry, tag, login), progress, whole=whole)


def pull(registry: Registry, output: Path, tag: str = "1", login: Login = NO_LOGIN) -> Pulled:
    name = parse_image_name(f"oci://{registry.host}/team/image:1")
    with reporting("cannot pull the image", name, login), Progress("json") as progress:
        return pull_image(remote(registry, tag, login), output, progress)


def left(folder: Path) -> list[str]:
    """Return the temporary files of a folder."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def refused_pull(registry: Registry, output: Path, words: str) -> None:
    """Require that a pull fails with words, and leaves what was at the output's place."""
    before = output.read_bytes() if output.exists() else None
    with pytest.raises(DownloadError, match=words):
        pull(registry, output)
    assert (output.read_bytes() if output.exists() else None) == before


def manifest(registry: Registry) -> dict[str, object]:
    content: dict[str, object] = json.loads(registry.manifests["1"])
    return content


# The way there and back


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


def test_the_blobs_joined_in_their_order_are_the_image(registry: Registry, image: Path) -> None:
    push(image, registry)
    layers: list[dict[str, str]] = manifest(registry)["layers"]  # type: ignore[assignment]
    assert len(layers) > 5
    assert b"".join(registry.blobs[each["digest"]] for each in layers) == image.read_bytes()


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


def test_a_second_push_sends_the_manifest_alone(registry: Registry, image: Path) -> None:
    push(image, registry)
    registry.received = 0
    assert push(image, registry, "2").sent == 0
    assert registry.received == len(registry.manifests["2"])


def change(image: Path) -> int:
    """Replace 1000 bytes of an image; return the most that its new blobs can have."""
    with image.open("r+b") as file:
        file.seek(50_000)
        file.write(b"new" * 333)
    return 3 * cutting.MOST


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


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
def test_a_login_opens_a_registry(registry: Registry, image: Path, scheme: str) -> None:
    registry.login, registry.scheme = "me:pass-word", scheme
    login = Login("me", "pass-word", server=registry.host)
    push(image, registry, login=login)
    pull(registry, image.with_name("new.sif"), login=login)
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()
    with pytest.raises(DownloadError, match=r"(?s)401.*apptainer registry login .* docker://127"):
        push(image, registry)
    with pytest.raises(DownloadError, match=r"401.*(?s:.*)use another one"):
        push(image, registry, login=Login("me", "wrong-word", server=registry.host))


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
def test_a_login_goes_to_no_other_server(registry: Registry, image: Path, scheme: str) -> None:
    login = Login("me", "pass-word", server=registry.host)
    registry.login = "me:pass-word"
    push(image, registry, login=login)
    with serving() as store:
        store.login, store.scheme = "me:pass-word", scheme
        other = {"Location": f"http://localhost:{store.host.partition(':')[2]}/x"}
        registry.fault = Times(99, "GET .*/blobs/", Reply(307, headers=other))
        with pytest.raises(DownloadError):
            pull(registry, image.with_name("new.sif"), login=login)
        change(image)
        registry.fault = Times(99, "POST", Reply(202, headers=other))
        with pytest.raises(DownloadError):
            push(image, registry, "2", login=login)
        assert store.requests
        assert store.logins == []


def test_a_registry_that_refuses_large_bodies_gets_chunks(registry: Registry, image: Path) -> None:
    registry.largest = 40_000
    push(image, registry, whole=True)
    assert registry.count("PATCH") == 4
    assert image.read_bytes() in registry.blobs.values()


# Bills of materials

BILL = b'{"bomFormat": "CycloneDX"}'


def push_with_bill(image: Path, registry: Registry) -> str:
    with Progress("json") as progress:
        return push_image(image, remote(registry), progress, whole=False, bill=BILL).digest


def test_the_bill_of_materials_is_listed_where_clients_look(
    registry: Registry, image: Path
) -> None:
    digest = push_with_bill(image, registry)
    assert push_with_bill(image, registry) == digest
    index = json.loads(registry.manifests[digest.replace(":", "-")])
    (row,) = index["manifests"]
    referrer = json.loads(registry.manifests[row["digest"]])
    assert row["artifactType"] == referrer["artifactType"] == "application/vnd.cyclonedx+json"
    assert referrer["subject"]["digest"] == digest
    assert registry.blobs[referrer["layers"][0]["digest"]] == BILL


def test_a_registry_that_lists_referrers_itself_gets_no_index(
    registry: Registry, image: Path
) -> None:
    registry.lists_referrers = True
    digest = push_with_bill(image, registry)
    assert digest.replace(":", "-") not in registry.manifests


def rows_of(registry: Registry, subject: bytes) -> list[dict[str, str]]:
    """Return the rows of the index of referrers of a manifest."""
    index = json.loads(registry.manifests[digest_of_bytes(subject).replace(":", "-")])
    rows: list[dict[str, str]] = index["manifests"]
    return rows


def test_two_bills_that_are_attached_at_once_are_both_listed(registry: Registry) -> None:
    """Both find no index before one is written; both have written before one looks again."""
    subject, both, reads = b"{}", threading.Barrier(2, timeout=60), count()

    def meet(method: str, path: str) -> Reply | None:
        if method == "GET" and (number := next(reads)) < 4:
            both.wait()
            return Reply(404) if number < 2 else None
        return None

    registry.fault = meet
    with ThreadPoolExecutor(2) as pool:
        bills = (b'{"by": "one"}', b'{"by": "two"}')
        attached = [pool.submit(attach_bill, each, remote(registry), subject) for each in bills]
        for each in attached:
            each.result()
    assert len(rows_of(registry, subject)) == 2


def test_a_row_of_another_program_that_comes_before_ours_is_written_stays(
    registry: Registry,
) -> None:
    subject, other = b"{}", {"digest": "sha256:of-another-program"}
    tag = digest_of_bytes(subject).replace(":", "-")
    registry.knows_etags = True
    registry.manifests[tag] = b'{"manifests": []}'
    written = iter([json.dumps({"manifests": [other]}).encode()])

    def write_first(method: str, path: str) -> Reply | None:
        if method == "PUT" and path.endswith(tag):
            registry.manifests[tag] = next(written, registry.manifests[tag])
        return None

    registry.fault = write_first
    attach_bill(BILL, remote(registry), subject)
    rows = rows_of(registry, subject)
    assert len(rows) == 2
    assert rows[0] == other


def test_an_index_that_is_replaced_again_and_again_ends_the_push(
    registry: Registry, image: Path
) -> None:
    def replace(method: str, path: str) -> Reply | None:
        tags = [tag for tag in registry.manifests if tag.startswith("sha256-")]
        registry.manifests.update(dict.fromkeys(tags, b'{"manifests": []}'))
        return None

    registry.fault = replace
    with pytest.raises(ValueError, match="other programs replaced its list of referrers"):
        push_with_bill(image, registry)


# Registries in trouble


class Times:
    """Answer the first requests that match with a fault."""

    def __init__(self, count: int, pattern: str, reply: Reply) -> None:
        self.left, self.pattern, self.reply = count, re.compile(pattern), reply

    def __call__(self, method: str, path: str) -> Reply | None:
        if self.left and self.pattern.search(f"{method} {path}"):
            self.left -= 1
            return self.reply
        return None


BUSY = Reply(429, headers={"Retry-After": "0"})


@pytest.mark.parametrize("reply", [BUSY, Reply(503), Reply(500), Reply(200, b"x" * 999, {}, 10)])
@pytest.mark.parametrize("pattern", ["GET .*/manifests/", "GET .*/blobs/"])
def test_a_pull_waits_for_a_registry_that_is_busy(
    registry: Registry, image: Path, pattern: str, reply: Reply
) -> None:
    push(image, registry)
    registry.fault = Times(2, pattern, reply)
    pull(registry, image.with_name("new.sif"))
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()


@pytest.mark.parametrize("reply", [BUSY, Reply(0)])
@pytest.mark.parametrize("pattern", ["HEAD", "POST", "PUT .*/blobs/", "PUT .*/manifests/"])
def test_a_push_waits_for_a_registry_that_is_busy_or_dies(
    registry: Registry, image: Path, pattern: str, reply: Reply
) -> None:
    registry.fault = Times(2, pattern, reply)
    push(image, registry)
    pull(registry, image.with_name("new.sif"))
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()


@pytest.mark.parametrize(
    ("code", "words"),
    {
        401: "log in: apptainer registry login",
        403: "log in: apptainer registry login",
        404: "check the name and the tag",
        405: "it may be read-only",
        429: "repeat the command later",
        503: "repeat the command when the registry answers",
        507: "more space",
    }.items(),
)
def test_a_refused_push_says_what_to_do(
    registry: Registry, image: Path, code: int, words: str
) -> None:
    body = json.dumps({"errors": [{"code": "X", "message": "because\x1b[2J"}]}).encode()
    registry.fault = Times(99, "POST", Reply(code, body))
    with pytest.raises(DownloadError) as refusal:
        push(image, registry)
    assert words in str(refusal.value)
    assert f"answers {code}" in str(refusal.value)
    assert r"because\x1b[2J" in str(refusal.value)
    assert registry.manifests == {}


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


# Blobs that are not what the manifest says


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


def edit(registry: Registry, **changes: object) -> None:
    registry.manifests["1"] = json.dumps({**manifest(registry), **changes}).encode()


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


# What the cache has


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache").open()


def put_layer(store: Cache, seed: int) -> Entry:
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
    registry: Registry, image: Path, store: Cache
) -> None:
    entries = [put_layer(store, 1), put_layer(store, 2)]
    push_assembled(registry, image, entries)
    assert store.remove(entries[0].name)
    pulled = pull_with(store, registry, image.with_name("new.sif"))
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()
    assert pulled.fetched == own_bytes(image) + 4 * 9000


def test_what_the_cache_has_is_not_believed(registry: Registry, image: Path, store: Cache) -> None:
    entry = put_layer(store, 1)
    push_assembled(registry, image, [entry])
    with entry.layer.open("r+b") as file:
        file.seek(SUPERBLOCK_SIZE)
        file.write(b"evil")
    pulled = pull_with(store, registry, image.with_name("new.sif"))
    assert image.with_name("new.sif").read_bytes() == image.read_bytes()
    assert own_bytes(image) < pulled.fetched < pulled.size


# Pulls that end early


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
