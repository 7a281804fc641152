"""A registry that is busy is waited for; one that refuses is reported, with what to do."""

import json
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError
from lumicontainer.host.transfers import Login

from .remote_images import Times, change, pull, push
from .server import Registry, Reply, serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_blobs")]


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
