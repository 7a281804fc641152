"""Every byte of an image has the digest by which it was asked for, whatever a registry answers."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from lumicontainer.errors import DownloadError
from lumicontainer.host.registry import pinned_image, save_image
from lumicontainer.system import budget

from .test_fetch import serving

pytestmark = pytest.mark.slow

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
        rows = {"schemaVersion": 2, "config": {"digest": digest}, "layers": [{"digest": layer}]}
        manifest = json.dumps(rows).encode()
        self.add("manifests", sha256(manifest), manifest)
        return manifest

    def saved(self, tag: str, folder: Path) -> bytes:
        """Return the content of the layer that is downloaded."""
        folder.mkdir()
        image = save_image(f"{self.image}{tag}", folder, plain=True, trust=None)
        assert image.environment == ["A=b"]
        (layer,) = image.layers
        return layer.read_bytes()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with serving(tmp_path) as url:
        yield Registry(tmp_path, url.removeprefix("http://").rstrip("/"))


def test_an_image_is_found_by_its_tag_and_by_its_digest(registry: Registry, tmp_path: Path) -> None:
    manifest = registry.add_manifest(registry.add("blobs", sha256(b"layer"), b"layer"))
    row = {"platform": AMD64, "digest": sha256(manifest)}
    registry.add("manifests", "new", json.dumps({"schemaVersion": 2, "manifests": [row]}).encode())
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
    index = json.dumps(
        {"schemaVersion": 2, "manifests": [{"platform": AMD64, "digest": "tag"}]}
    ).encode()
    registry.add("manifests", sha256(index), index)
    with pytest.raises(DownloadError, match="expected a digest by sha256, got 'tag'"):
        registry.saved(f"@{sha256(index)}", tmp_path / "layers")


# registries in trouble, and answers that are no manifest

MANIFEST = b'{"schemaVersion": 2, "manifests": []}'
PAGE = b"<!DOCTYPE html><title>Log in</title>"


class Answer(NamedTuple):
    """Hold an answer of a registry; without a code, the connection ends."""

    code: int = 200
    body: bytes = MANIFEST
    headers: Mapping[str, str] = MappingProxyType({})
    stalls: bool = False


BUSY = Answer(503, PAGE)
CUT = Answer(body=MANIFEST[:20], headers={"Content-Length": str(len(MANIFEST))})
LOG_IN = Answer(401, headers={"WWW-Authenticate": 'Bearer realm="http://{host}/token"'})


class _Scripted(BaseHTTPRequestHandler):
    """Give the answers of a list, the last one for ever, and record each request."""

    def __init__(self, answers: list[Answer], seen: list[str], *arguments: Any) -> None:
        self.answers, self.seen = answers, seen
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self.seen.append(self.path)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not answer.code:
            return
        self.send_response(answer.code)
        for name, value in answer.headers.items():
            self.send_header(name, value.format(host=self.headers["Host"]))
        self.end_headers()
        self.wfile.write(answer.body)
        if answer.stalls:
            self.connection.recv(1)  # Until the client goes away.

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Pinned(NamedTuple):
    """Hold the digest of an image, and the requests that it took."""

    image: str
    requests: list[str]


@contextmanager
def answering(answers: tuple[Answer, ...], seen: list[str]) -> Iterator[str]:
    """Serve answers over loopback; yield the host and its port."""
    handler = partial(_Scripted, list(answers), seen)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def pin_of(*answers: Answer) -> Pinned:
    """Return the pin of an image whose registry gives these answers."""
    seen: list[str] = []
    with answering(answers, seen) as host:
        return Pinned(
            pinned_image("ubuntu", {"docker://docker.io/": f"http://{host}/"}, None), seen
        )


def refused(complaint: str, *answers: Answer) -> list[str]:
    """Assert that an image gets no pin, and return the requests."""
    seen: list[str] = []
    with answering(answers, seen) as host, pytest.raises(DownloadError, match=complaint):
        pinned_image("ubuntu", {"docker://docker.io/": f"http://{host}/"}, None)
    return seen


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make repeated requests follow each other at once."""
    for kind in ("MANIFEST", "LAYER"):
        limits = getattr(budget, kind)._replace(pauses=(0, 0, 0, 0), silence=5)
        monkeypatch.setattr(budget, kind, limits)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param((BUSY, BUSY), id="503 twice"),
        pytest.param((Answer(429), Answer(502)), id="429 and 502"),
        pytest.param((Answer(0),), id="reset"),
        pytest.param((CUT,), id="truncated"),
        pytest.param((CUT._replace(stalls=True),), id="stalled"),
        pytest.param((LOG_IN, BUSY, LOG_IN, Answer(body=b'{"token": "x"}')), id="busy with tokens"),
    ],
)
@pytest.mark.usefixtures("hurried")
def test_trouble_that_passes_costs_a_request_and_no_pin(trouble: tuple[Answer, ...]) -> None:
    pin = pin_of(*trouble, Answer())
    assert pin.image == f"ubuntu@{sha256(MANIFEST)}"
    assert len(pin.requests) == len(trouble) + 1


@pytest.mark.usefixtures("hurried")
def test_a_registry_says_when_to_ask_it_next() -> None:
    start = time.monotonic()
    pin_of(Answer(429, headers={"Retry-After": "1"}), Answer())
    assert time.monotonic() - start >= 1
    assert len(refused("429", Answer(429, headers={"Retry-After": "3600"}))) == 1


@pytest.mark.parametrize("code", [401, 403, 404])
def test_a_refusal_is_not_repeated(code: int) -> None:
    assert len(refused(f"(?s)cannot read the digest of 'ubuntu'.*{code}", Answer(code))) == 1


@pytest.mark.usefixtures("hurried")
def test_trouble_that_stays_is_reported() -> None:
    assert len(refused("HTTP Error 503", BUSY)) == 5
    assert len(refused(f"expected {len(MANIFEST)} bytes, got 20", CUT)) == 5


@pytest.mark.parametrize(
    "body",
    [
        *(b"", PAGE, MANIFEST[:20], b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000),
        *(b'{"errors": []}', b'{"schemaVersion": 1, "fsLayers": []}', b'{"layers": []}'),
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_manifest_becomes_no_pin(body: bytes) -> None:
    refused("the answer is not a manifest", Answer(body=body))


def test_a_manifest_has_the_digest_that_its_registry_names() -> None:
    named = {"Docker-Content-Digest": sha256(MANIFEST)}
    assert pin_of(Answer(headers=named)).image == f"ubuntu@{sha256(MANIFEST)}"
    refused("a download does not have its digest", Answer(body=MANIFEST + b" ", headers=named))


@pytest.mark.parametrize(
    "body", [b"[]", b'"x"', b"null", b"{}", b'{"token": 1}', PAGE, b""], ids=str
)
def test_an_answer_without_a_token_is_reported(body: bytes) -> None:
    seen = refused(
        "'http://127.0.0.1:[0-9]+/token' did not return a token", LOG_IN, Answer(body=body)
    )
    assert len(seen) == 2


@pytest.mark.parametrize(
    "realm", ["http://169.254.169.254/token", "http://[fe80::1]/token", "file:///etc/passwd"]
)
def test_a_registry_asks_for_no_token_of_what_only_this_host_reaches(realm: str) -> None:
    log_in = Answer(401, headers={"WWW-Authenticate": f'Bearer realm="{realm}"'})
    assert len(refused("the registry asks to log in at", log_in)) == 1


@pytest.mark.usefixtures("hurried")
def test_a_layer_that_ends_early_is_downloaded_once_more(tmp_path: Path) -> None:
    rows = {"config": {"digest": sha256(b"{}")}, "layers": [{"digest": sha256(b"layer")}]}
    manifest = Answer(body=json.dumps({"schemaVersion": 2, **rows}).encode())
    cut = Answer(body=b"lay", headers={"Content-Length": "5"})
    seen: list[str] = []
    answers = (manifest, cut, Answer(body=b"layer"), Answer(body=b"{}"))
    with answering(answers, seen) as host:
        (layer,) = save_image(f"{host}/one", tmp_path, plain=True, trust=None).layers
    assert layer.read_bytes() == b"layer"
    assert len(seen) == len(answers)
