"""Images of others: odd manifests and configurations are refused in words."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.errors import DownloadError
from lumicontainer.host.registry import save_image

from ..unit.host.test_registry import AMD64, Answer, answering, sha256

LAYER, CONFIG = b"a layer", b'{"config": {"Env": ["A=b"]}}'
BLOB = {"digest": sha256(LAYER), "size": len(LAYER)}
GOOD = {"schemaVersion": 2, "config": {"digest": sha256(CONFIG)}, "layers": [BLOB]}
ROW = {"platform": AMD64, "digest": sha256(b"x")}
DEEP = b'{"schemaVersion": 2, "layers": [], "x": ' + b"[" * 100_000
ODD_MANIFESTS: dict[str, Any] = {
    "layers null": {**GOOD, "layers": None},
    "layers an object": {**GOOD, "layers": {}},
    "layers of text": {**GOOD, "layers": ["sha256:x"]},
    "too many layers": {**GOOD, "layers": [BLOB] * 1001},
    "no layers": {"schemaVersion": 2, "config": BLOB},
    "layer null": {**GOOD, "layers": [None]},
    "layer without a digest": {**GOOD, "layers": [{"size": 1}]},
    "digest a number": {**GOOD, "layers": [{**BLOB, "digest": 7}]},
    "digest a list": {**GOOD, "layers": [{**BLOB, "digest": ["sha256:x"]}]},
    "digest short": {**GOOD, "layers": [{**BLOB, "digest": "sha256:12"}]},
    "digest a path": {**GOOD, "layers": [{**BLOB, "digest": "sha256:../../../../etc/passwd"}]},
    "digest with a newline": {**GOOD, "layers": [{**BLOB, "digest": sha256(LAYER) + "\n"}]},
    "digest by another hash": {**GOOD, "layers": [{**BLOB, "digest": "md5:" + "0" * 32}]},
    "digest of other bytes": {**GOOD, "layers": [{**BLOB, "digest": sha256(b"other")}]},
    "size negative": {**GOOD, "layers": [{**BLOB, "size": -1}]},
    "size text": {**GOOD, "layers": [{**BLOB, "size": "7"}]},
    "size a fraction": {**GOOD, "layers": [{**BLOB, "size": 7.5}]},
    "size true": {**GOOD, "layers": [{**BLOB, "size": True}]},
    "size huge": {**GOOD, "layers": [{**BLOB, "size": 2**80}]},
    "size too small": {**GOOD, "layers": [{**BLOB, "size": 3}]},
    "no config": {"schemaVersion": 2, "layers": [BLOB]},
    "config null": {**GOOD, "config": None},
    "config text": {**GOOD, "config": sha256(CONFIG)},
    "config without a digest": {**GOOD, "config": {}},
    "an index of text": {"schemaVersion": 2, "manifests": ["x"]},
    "an index that is an object": {"schemaVersion": 2, "manifests": {}},
    "an empty index": {"schemaVersion": 2, "manifests": []},
    "an index without platforms": {"schemaVersion": 2, "manifests": [{"digest": sha256(b"x")}]},
    "an index of a platform in text": {"schemaVersion": 2, "manifests": [{"platform": "linux"}]},
    "an index without digests": {"schemaVersion": 2, "manifests": [{"platform": AMD64}]},
    "an index of a tag": {"schemaVersion": 2, "manifests": [{**ROW, "digest": "tag"}]},
    "a list": [],
    "text": "manifest",
    "a number": 1e999,
}
ODD_CONFIGS = {
    "no JSON": b"<html>",
    "not UTF-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "config a list": b'{"config": []}',
    "config text": b'{"config": "x"}',
    "Env text": b'{"config": {"Env": "A=b"}}',
    "Env an object": b'{"config": {"Env": {"A": "b"}}}',
    "Env of numbers": b'{"config": {"Env": [1]}}',
    "Env with a zero byte": rb'{"config": {"Env": ["A=\u0000"]}}',
    "Env with half a character": rb'{"config": {"Env": ["A=\ud800"]}}',
}
PLAIN_CONFIGS = {
    "empty": b"{}",
    "config null": b'{"config": null}',
    "Env null": b'{"config": {"Env": null}}',
}


def manifest(content: Any) -> Answer:
    return Answer(body=content if isinstance(content, bytes) else json.dumps(content).encode())


def environment_of(config: bytes, folder: Path) -> list[str]:
    rows = {**GOOD, "config": {"digest": sha256(config)}}
    with answering((manifest(rows), Answer(body=LAYER), Answer(body=config)), []) as host:
        return list(save_image(f"{host}/x", folder, plain=True, trust=None).environment)


def test_a_plain_manifest_is_saved(tmp_path: Path) -> None:
    assert environment_of(CONFIG, tmp_path) == ["A=b"]
    assert (tmp_path / "0.tar").read_bytes() == LAYER


@pytest.mark.parametrize("content", [*ODD_MANIFESTS.values(), DEEP], ids=[*ODD_MANIFESTS, "deep"])
def test_an_odd_manifest_is_refused_in_words(content: Any, tmp_path: Path) -> None:
    answers = (manifest(content), Answer(body=LAYER), Answer(body=CONFIG))
    with answering(answers, []) as host, pytest.raises(DownloadError, match="hint: "):
        save_image(f"{host}/x", tmp_path, plain=True, trust=None)


@pytest.mark.parametrize("config", ODD_CONFIGS.values(), ids=[*ODD_CONFIGS])
def test_an_odd_configuration_is_refused_in_words(config: bytes, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="invalid manifest or configuration"):
        environment_of(config, tmp_path)


@pytest.mark.parametrize("config", PLAIN_CONFIGS.values(), ids=[*PLAIN_CONFIGS])
def test_an_image_may_have_no_variables(config: bytes, tmp_path: Path) -> None:
    assert environment_of(config, tmp_path) == []


def test_an_index_in_an_index_is_refused(tmp_path: Path) -> None:
    inner = manifest({"schemaVersion": 2, "manifests": [ROW]})
    row = {**ROW, "digest": sha256(inner.body)}
    outer = manifest({"schemaVersion": 2, "manifests": [row]})
    with answering((outer, inner), []) as host, pytest.raises(DownloadError, match="another index"):
        save_image(f"{host}/x", tmp_path, plain=True, trust=None)


def test_the_image_for_every_processor_is_taken_from_an_index(tmp_path: Path) -> None:
    body = json.dumps(GOOD).encode()
    newer = {"platform": {**AMD64, "variant": "v3"}, "digest": sha256(b"newer")}
    rows = [newer, {**ROW, "digest": sha256(body)}]
    index = manifest({"schemaVersion": 2, "manifests": rows})
    seen: list[str] = []
    answers = (index, Answer(body=body), Answer(body=LAYER), Answer(body=CONFIG))
    with answering(answers, seen) as host:
        save_image(f"{host}/x", tmp_path, plain=True, trust=None)
    assert seen[1].endswith(sha256(body))


def test_a_tag_that_moves_after_it_was_locked_changes_nothing(tmp_path: Path) -> None:
    """By a lock an image is asked for by its digest, and so is each of its parts."""
    locked = hashlib.sha256(json.dumps(GOOD).encode()).hexdigest()
    moved = manifest({**GOOD, "layers": []})
    with answering((moved,), []) as host:
        words = f"{host}/x@sha256:{locked}"
        with pytest.raises(DownloadError, match="a download does not have its digest"):
            save_image(words, tmp_path, plain=True, trust=None)
    assert list(tmp_path.iterdir()) == []


def test_a_registry_that_answers_otherwise_to_each_request_is_refused(tmp_path: Path) -> None:
    """An index is read first, then another image than the one that it names."""
    index = manifest({"schemaVersion": 2, "manifests": [{**ROW, "digest": sha256(b"promised")}]})
    answers = (index, manifest(GOOD), Answer(body=LAYER), Answer(body=CONFIG))
    with answering(answers, []) as host, pytest.raises(DownloadError, match="its digest"):
        save_image(f"{host}/x", tmp_path, plain=True, trust=None)
