"""A server decides neither how long a download takes nor how large it is, and sends nobody away."""

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import repeat
from pathlib import Path
from urllib.request import Request

import pytest

from lumicontainer.errors import DownloadError
from lumicontainer.host.registry import save_image
from lumicontainer.host.transfers import Client, _Redirects
from lumicontainer.system import budget
from lumicontainer.system.budget import LimitError, Pace, Total, Transfer

from .test_registry import Answer, answering, refused, sha256

pytestmark = pytest.mark.slow

SMALL = Transfer(1 << 20, pauses=())
"""Limits that are reached by bytes, however slow this host is."""
URGENT = SMALL._replace(seconds=60, slowest=1 << 20, window=0.2, silence=20)
"""Limits that a slow answer reaches soon."""
Sent = Callable[[], Iterator[bytes]]


@contextmanager
def sending(answer: Sent) -> Iterator[str]:
    """Answer each request by pieces until the client goes away; yield a URL."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                for piece in answer():
                    connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def fast(*first: bytes, then: bytes) -> Sent:
    return lambda: iter((*first, *repeat(then, 1 << 20)))


def slow(*first: bytes, then: bytes) -> Sent:
    pause = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield from first
        while True:
            yield then
            pause.wait(0.01)

    return pieces


HEAD, END = b"HTTP/1.1 200 OK\r\n", b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"
LARGE, SLOW = "more than 1048576 bytes", "fewer than 1048576 bytes a second"
ENDLESS = {
    "body": (fast(HEAD, END, then=bytes(1 << 16)), LARGE),
    "chunks": (fast(HEAD, CHUNKED, then=b"1000\r\n" + bytes(4096) + END), LARGE),
    "extension of a chunk": (fast(HEAD, CHUNKED, b"1;", then=b"x" * 4096), "chunk size|line"),
    "trailer": (fast(HEAD, CHUNKED, b"0\r\n", then=b"A: b\r\n" * 999), LARGE),
    "header": (fast(HEAD, then=b"A: b\r\n" * 999), "more than 100 headers"),
    "line": (fast(HEAD, b"A: ", then=b"x" * 4096), "line"),
    "informational answers": (fast(then=b"HTTP/1.1 100 Continue\r\n\r\n" * 99), LARGE),
    "chunk of -1 bytes": (fast(HEAD, CHUNKED, b"-1\r\n", then=bytes(1 << 16)), "got -1"),
    "body of a redirect": (fast(REDIRECT, then=bytes(1 << 16)), "infinite loop"),
    "port of a redirect": (
        fast(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:" + b"9" * 30, then=END + END),
        "invalid port",
    ),
    "slow body": (slow(HEAD, END, then=b"x"), SLOW),
    "slow header": (slow(HEAD, b"A: ", then=b"x"), SLOW),
    "slow status": (slow(b"HTTP/1.1 200 ", then=b"x"), SLOW),
}


@pytest.mark.parametrize(("answer", "why"), ENDLESS.values(), ids=ENDLESS)
def test_an_answer_without_end_is_left(answer: Sent, why: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    with sending(answer) as url, pytest.raises(Exception, match=why):
        Client(None).save(url, file, URGENT if why == SLOW else SMALL)
    assert not file.exists() or file.stat().st_size <= SMALL.most


def test_all_attempts_together_have_one_end() -> None:
    with pytest.raises(LimitError, match="did not end within 60 s"):
        Pace(URGENT, end=7, clock=lambda: 7.5).patience()


def test_time_in_which_the_client_itself_is_busy_does_not_count() -> None:
    now = 0.0
    pace = Pace(budget.LAYER, end=1e9, clock=lambda: now)
    for _ in range(99):
        pace.patience()
        now += 1
        pace.count(2000)
        now += 3600
    assert pace.patience() > 0


def test_a_line_of_one_megabit_brings_a_large_layer() -> None:
    now, left = 0.0, 10 * 1000**3
    pace = Pace(budget.LAYER, end=budget.LAYER.seconds, clock=lambda: now)
    while left > 0:
        pace.patience()
        now += 8
        pace.count(1_000_000)
        left -= 1_000_000
    assert pace.patience() > 0


@pytest.mark.parametrize(
    "pause",
    [
        *("Thu, 31 Dec 2037 23:55:59 GMT", "-1", "", "soon", "1.5", "0x10", "²", "9" * 5000),
        *("Thu, 31 Dec 99999 23:55:59 GMT", "nan", "1e9", "\t0"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_number_of_seconds_is_not_waited_for(pause: str, tmp_path: Path) -> None:
    seen: list[str] = []
    busy = Answer(503, headers={"Retry-After": pause})
    limits = URGENT._replace(pauses=(0, 0), slowest=0)
    with answering((busy, Answer()), seen) as host:
        Client(None).save(f"http://{host}/x", tmp_path / "file", limits)
    assert len(seen) == 2


def test_a_pause_that_is_too_long_ends_the_download_at_once(tmp_path: Path) -> None:
    seen: list[str] = []
    busy = Answer(503, headers={"Retry-After": "100000000"})
    with answering((busy,), seen) as host, pytest.raises(OSError, match="503"):
        Client(None).save(f"http://{host}/x", tmp_path / "file", budget.LAYER)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("http://{host}/again", "redirect"),
        ("file:///etc/passwd", "file:.* is not allowed"),
        ("ftp://{host}/x", "redirects to 'ftp:"),
        ("data:,x", "data:.* is not allowed"),
        ("gopher://{host}/x", "gopher:.* is not allowed"),
        ("//[", "Invalid"),
    ],
)
def test_a_redirect_leads_to_no_end_and_no_other_protocol(
    where: str, why: str, tmp_path: Path
) -> None:
    seen: list[str] = []
    away = Answer(302, headers={"Location": where})
    limits = URGENT._replace(slowest=0)
    with answering((away,), seen) as host, pytest.raises((OSError, ValueError), match=why):
        Client(None).save(f"http://{host}/x", tmp_path / "file", limits)
    assert len(seen) <= 11
    assert not (tmp_path / "file").exists()


def test_a_compressed_answer_stays_as_it_is(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(1 << 24))
    answer = Answer(body=bomb, headers={"Content-Encoding": "gzip"})
    with answering((answer,), []) as host:
        Client(None).save(f"http://{host}/x", tmp_path / "file", URGENT._replace(slowest=0))
    assert (tmp_path / "file").read_bytes() == bomb


def image_of(size: object, body: bytes) -> tuple[Answer, ...]:
    """Return the answers of a registry whose manifest states a layer's size."""
    rows = {"config": {"digest": sha256(b"{}")}, "layers": [{"digest": sha256(body), "size": size}]}
    manifest = Answer(body=json.dumps({"schemaVersion": 2, **rows}).encode())
    return manifest, Answer(body=body), Answer(body=b"{}")


@pytest.mark.parametrize("size", [0, 4, -1, 2**70, "5", 5.0, [5], True], ids=repr)
def test_a_layer_is_no_larger_than_its_manifest_states(size: object, tmp_path: Path) -> None:
    seen: list[str] = []
    with answering(image_of(size, b"layer"), seen) as host, pytest.raises(DownloadError):
        save_image(f"{host}/one", tmp_path, plain=True, trust=None)
    assert not any(path.stat().st_size > 4 for path in tmp_path.iterdir())


def test_a_layer_without_end_ends_at_its_size(tmp_path: Path) -> None:
    manifest = image_of(5000, b"layer")[0].body
    answers = [HEAD + END + manifest]

    def endless() -> Iterator[bytes]:
        if answers:
            return iter((answers.pop(),))
        return fast(HEAD, END, then=bytes(1 << 16))()

    with sending(endless) as url, pytest.raises(DownloadError, match="more than 5000 bytes"):
        save_image(f"{url[7:-2]}/one", tmp_path, plain=True, trust=None)
    assert (tmp_path / "0.tar").stat().st_size <= 5000


def blob(content: bytes, *, sized: bool = False) -> dict[str, object]:
    """Return a row of a manifest."""
    return {"digest": sha256(content), **({"size": len(content)} if sized else {})}


def manifest_of(*layers: object) -> Answer:
    rows = {"config": blob(b"{}"), "layers": layers}
    return Answer(body=json.dumps({"schemaVersion": 2, **rows}).encode())


def test_a_layer_that_an_image_names_often_is_downloaded_once(tmp_path: Path) -> None:
    one, two = b"one", b"two"
    manifest = manifest_of(blob(one), blob(two), *[blob(one)] * 300)
    seen: list[str] = []
    answers = (manifest, Answer(body=one), Answer(body=two), Answer(body=b"{}"))
    with answering(answers, seen) as host:
        layers = save_image(f"{host}/one", tmp_path, plain=True, trust=None).layers
    assert [each.read_bytes() for each in layers] == [one, two, *[one] * 300]
    assert len(seen) == len(answers)


@pytest.mark.parametrize("sized", [True, False], ids=["stated", "unstated"])
def test_the_layers_of_an_image_have_one_limit_together(
    sized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (b"layer 1", b"layer 2", b"layer 3")
    answers = (
        manifest_of(*(blob(each, sized=sized) for each in names)),
        *(Answer(body=each) for each in names),
    )
    monkeypatch.setattr(budget, "IMAGE", budget.IMAGE._replace(most=13))
    seen: list[str] = []
    why = "all files together have more than 13 bytes"
    with answering(answers, seen) as host, pytest.raises(DownloadError, match=why):
        save_image(f"{host}/one", tmp_path, plain=True, trust=None)
    # Bytes whose number is stated do not come at all.
    assert len(seen) == (2 if sized else 3)


def test_a_layer_without_a_size_ends_at_the_limit_of_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = bytes(8 << 20)
    monkeypatch.setattr(budget, "IMAGE", budget.IMAGE._replace(most=1 << 20))
    answers = (manifest_of(blob(layer, sized=False)), Answer(body=layer))
    with answering(answers, []) as host, pytest.raises(DownloadError, match="together"):
        save_image(f"{host}/one", tmp_path, plain=True, trust=None)
    assert (tmp_path / "0.tar").stat().st_size < len(layer)


def test_the_layers_of_an_image_end_in_time_together() -> None:
    now = 0.0
    total = Total(Transfer(100, seconds=10), lambda: now)
    assert total.shorten(Transfer(50, seconds=3)) == Transfer(50, seconds=3)
    now = 8
    assert total.shorten(Transfer(50, seconds=3)).seconds == 2
    now = 10
    with pytest.raises(LimitError, match="did not end within 10 s"):
        total.shorten(Transfer(50))


def test_an_image_that_takes_too_long_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "IMAGE", budget.IMAGE._replace(seconds=0))
    seen: list[str] = []
    why = "all files together did not end within 0 s"
    with answering(image_of(5, b"layer"), seen) as host, pytest.raises(DownloadError, match=why):
        save_image(f"{host}/one", tmp_path, plain=True, trust=None)
    assert len(seen) == 1


def test_a_manifest_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MANIFEST", budget.MANIFEST._replace(most=1000))
    refused("more than 1000 bytes", Answer(body=b"[" * 1001))
    log_in = Answer(401, headers={"WWW-Authenticate": 'Bearer realm="http://{host}/token"'})
    monkeypatch.setattr(budget, "TOKEN", budget.TOKEN._replace(most=1000))
    refused("more than 1000 bytes", log_in, Answer(body=b'{"token": "%s"}' % (b"x" * 1000)))
    refused("did not return a token", log_in, Answer(body=b'{"token": "x\\nHost: y"}'))


@pytest.mark.parametrize("to", ["http://a.invalid/", "HTTP://a.invalid/", "ftp://a.invalid/"])
def test_no_redirect_leads_from_https_to_a_weaker_protocol(to: str) -> None:
    request, follow = Request("https://b.invalid/x"), _Redirects().redirect_request
    request.pace = None  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"redirects to '(?i:http|ftp)://a\.invalid/'"):
        follow(request, BytesIO(), 302, "Found", {}, to)
    assert follow(request, BytesIO(), 302, "Found", {}, "https://a.invalid/") is not None
