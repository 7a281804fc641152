"""A download that is cut off begins again; one that is refused does not."""

import base64
import gzip
import hashlib
import os
import random
import re
import sys

import pytest

from lumicontainer.core.model import GitSource
from lumicontainer.host.git import whole_commit
from lumicontainer.pinning.pip import Pip
from lumicontainer.pinning.sources import sha256_of
from lumicontainer.pinning.wheels import Target
from lumicontainer.system import budget
from lumicontainer.system.process import ProgramError

from ...conftest import ROOT
from ..host.test_fetch import UPSTREAM, Upstream, upstream
from ..host.test_registry import CUT, MANIFEST, Answer, answering
from ..host.test_transfers import CHUNKED, END, HEAD, Sent, fast, sending, slow

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "trouble", [pytest.param(Answer(0), id="closed"), pytest.param(CUT, id="truncated")]
)
def test_a_connection_that_is_cut_costs_no_download(trouble: Answer) -> None:
    seen: list[str] = []
    with answering((trouble, Answer()), seen) as host:
        digest = sha256_of(f"{UPSTREAM}x", {UPSTREAM: f"http://{host}/"})
    assert (digest, seen) == (hashlib.sha256(MANIFEST).hexdigest(), ["/x", "/x"])


def test_a_refused_download_is_asked_for_once() -> None:
    seen: list[str] = []
    with answering((Answer(404),), seen) as host, pytest.raises(ProgramError, match=r"curl.* 404"):
        sha256_of(f"{UPSTREAM}x", {UPSTREAM: f"http://{host}/"})
    assert seen == ["/x"]


__all__ = ["upstream"]

# servers that misbehave

LIMITS = "1000000 60 {slowest} 1 0 0"
"""Bytes, seconds, bytes a second, their window and pauses."""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMICONTAINER_LIMITS", LIMITS.format(slowest=1))


def test_the_shell_has_the_limits_of_the_budget() -> None:
    text = (ROOT / "lumicontainer/step/limits.sh").read_text()
    numbers = [float(word) for word in re.findall(r":-([0-9 ]+)\}", text)[0].split()]
    limits = budget.SOURCE
    first = [limits.most, limits.seconds, limits.slowest, limits.window]
    assert numbers == [*first, *limits.pauses]
    assert f"most_memory={budget.GIT_MEMORY >> 10}\n" in text


@pytest.mark.parametrize(
    "pause", ["Thu, 31 Dec 2037 23:55:59 GMT", "-1", "soon", "0", "9" * 400, "0x9", "1e3"]
)
@pytest.mark.usefixtures("hurried")
def test_a_server_that_is_busy_is_asked_soon_again(pause: str) -> None:
    seen: list[str] = []
    with answering((Answer(503, headers={"Retry-After": pause}), Answer()), seen) as host:
        sha256_of(f"{UPSTREAM}x", {UPSTREAM: f"http://{host}/"})
    assert seen == ["/x", "/x"]


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("pause", ["61", "100000000", "08000"])
def test_a_server_that_asks_for_a_long_pause_is_not_waited_for(pause: str) -> None:
    seen: list[str] = []
    busy = Answer(429, headers={"Retry-After": pause})
    with (
        answering((busy, Answer()), seen) as host,
        pytest.raises(ProgramError, match=r"curl.* 429"),
    ):
        sha256_of(f"{UPSTREAM}x", {UPSTREAM: f"http://{host}/"})
    assert seen == ["/x"]


REFUSED = {
    "body": (fast(HEAD, END, then=bytes(1 << 16)), "more than 1000000 bytes|Exceeded the max"),
    "chunks": (
        fast(HEAD, CHUNKED, then=b"1000\r\n" + bytes(4096) + END),
        "more than 1000000 bytes|Exceeded the max",
    ),
    "stated size": (fast(HEAD, b"Content-Length: 1000001\r\n\r\n", then=b"x"), "Maximum file size"),
    "header": (fast(HEAD, then=b"A: b\r\n" * 999), "Too large response headers"),
}


@pytest.mark.parametrize(("answer", "why"), REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("hurried")
def test_a_file_without_end_is_left(answer: Sent, why: str) -> None:
    with sending(answer) as url, pytest.raises(ProgramError, match=why):
        sha256_of(f"{UPSTREAM}x", {UPSTREAM: url})


@pytest.mark.parametrize("begin", [(HEAD, END), (HEAD, b"A: ")], ids=["body", "header"])
def test_a_file_that_comes_byte_by_byte_is_left(
    monkeypatch: pytest.MonkeyPatch, begin: tuple[bytes, ...]
) -> None:
    monkeypatch.setenv("LUMICONTAINER_LIMITS", "1000000 60 1000000 1")
    with sending(slow(*begin, then=b"x")) as url, pytest.raises(ProgramError, match="too slow"):
        sha256_of(f"{UPSTREAM}x", {UPSTREAM: url})


@pytest.mark.usefixtures("hurried")
def test_all_attempts_together_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMICONTAINER_LIMITS", "1000000 1 0 60" + " 0" * 99)
    with sending(slow(HEAD, END, then=b"x")) as url, pytest.raises(ProgramError, match="timed out"):
        sha256_of(f"{UPSTREAM}x", {UPSTREAM: url})


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("http://{host}/x", r"Maximum \(10\) redirects"),
        ("file:///etc/passwd", "Protocol .*file.* not supported or disabled"),
        ("ftp://{host}/x", "Protocol .*ftp.* not supported or disabled"),
        ("scp://{host}/x", "Protocol .*scp.* not supported or disabled"),
    ],
)
def test_a_server_that_redirects_for_ever_or_elsewhere_is_left(where: str, why: str) -> None:
    seen: list[str] = []
    away = Answer(302, headers={"Location": where})
    with answering((away,), seen) as host, pytest.raises(ProgramError, match=why):
        sha256_of(f"{UPSTREAM}x", {UPSTREAM: f"http://{host}/"})
    assert len(seen) <= 11


@pytest.mark.usefixtures("hurried")
def test_a_compressed_file_stays_compressed() -> None:
    bomb = gzip.compress(bytes(1 << 26))
    with answering((Answer(body=bomb, headers={"Content-Encoding": "gzip"}),), []) as host:
        digest = sha256_of(f"{UPSTREAM}x", {UPSTREAM: f"http://{host}/"})
    assert digest == hashlib.sha256(bomb).hexdigest()


def test_pip_does_not_wait_for_as_long_as_a_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SOURCE", budget.SOURCE._replace(longest_pause=0))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    seen: list[str] = []
    busy = Answer(503, headers={"Retry-After": "100000000"})
    with answering((busy,), seen) as host, pytest.raises(ProgramError, match="pip failed"):
        monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/simple")
        monkeypatch.setenv("PIP_RETRIES", "2")
        Pip(Target(f"{sys.version_info.major}.{sys.version_info.minor}")).source("one==1.0")
    assert seen == ["/simple/one/"] * 3


SLOW_PACK = (HEAD, b"Content-Type: application/x-git-upload-pack-advertisement\r\n\r\n")


@pytest.mark.parametrize("by", ["lock", "step"])
def test_a_repository_that_comes_byte_by_byte_is_left(
    by: str, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "SOURCE", budget.SOURCE._replace(slowest=1000000, window=1))
    upstream.environment["LUMICONTAINER_LIMITS"] = "1000000 60 1000000 1"
    with sending(slow(*SLOW_PACK, then=b"x")) as url:
        upstream.mirrors = {UPSTREAM: url}
        if by == "step":
            assert "Operation too slow" in upstream.fail(GitSource(UPSTREAM, "0123456", "tree"))
        else:
            with pytest.raises(ProgramError, match=r"git failed(?s:.)*Operation too slow"):
                whole_commit(UPSTREAM, "0123456", upstream.mirrors)


def test_a_repository_with_branches_without_end_is_left(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "GIT_MEMORY", 1 << 29)
    branches = b"".join(b"003f%040d refs/heads/%07d\n" % (1, each) for each in range(9999))
    answer = fast(*SLOW_PACK, b"001e# service=git-upload-pack\n0000", then=branches)
    refused = pytest.raises(ProgramError, match=r"git failed(?s:.)*(emory|malloc)")
    with sending(answer) as url, refused:
        whole_commit(UPSTREAM, "0123456", {UPSTREAM: url})


@pytest.mark.parametrize("by", ["lock", "step"])
def test_a_repository_that_is_too_large_is_left(
    by: str, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = base64.b64encode(random.Random(1).randbytes(200_000)).decode()
    folder = upstream.repository("tool", a="x")
    for number in range(2):
        (folder / f"{number}").write_text(f"{large}{number}")
    upstream.git("add", ".", at=folder)
    upstream.git("commit", "--quiet", "--file=-", at=folder, stdin=large)
    monkeypatch.setattr(budget, "SOURCE", budget.SOURCE._replace(most=100_000))
    upstream.environment["LUMICONTAINER_LIMITS"] = "100000 60 0 60"
    if by == "step":
        commit = upstream.head(folder)
        printed = upstream.fail(GitSource(f"{UPSTREAM}tool", commit, "tree"))
        assert "cannot fetch the repository of 'tree'" in printed
    else:
        with pytest.raises(ProgramError, match="git failed"):
            whole_commit(f"{UPSTREAM}tool", "0123456", upstream.mirrors)
