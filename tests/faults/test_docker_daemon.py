"""Odd answers of a Docker daemon end in a message, and never in "a bug in lumicontainer"."""

import io
import json
import re
import struct
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

import pytest

from lumicontainer.errors import HostError, LumicontainerError, SpaceError
from lumicontainer.host.docker import base, client, container, daemon, image
from lumicontainer.system import budget

_ID = "a" * 64
_FRAME = struct.pack(">BxxxL", 1, 3) + b"hi\n"


def _archive() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("new"))
    return data.getvalue()


class Answer:
    """Hold an answer: a body, its status, whether it is cut, and what comes behind the body."""

    def __init__(
        self, body: object, status: int = 200, *, is_cut: bool = False, more: str = ""
    ) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status, self.is_cut, self.more = status, is_cut, more

    def head(self) -> tuple[str, str]:
        """Return the header that says how long the body is."""
        if self.more == "chunk":
            return "Transfer-Encoding", "chunked"
        return "Content-Length", str(1 << 40 if self.more else len(self.body) + 9 * self.is_cut)


ANSWERS = {
    "GET version": Answer({"ApiVersion": "1.44", "Components": [{"Name": "Engine"}]}),
    "GET containers": Answer([]),
    "GET images": Answer([]),
    "POST create": Answer({"Id": _ID}, 201),
    "GET container": Answer({"Id": _ID, "Config": {"Tty": False}}),
    "POST attach": Answer(_FRAME),
    "POST start": Answer(b"", 204),
    "POST wait": Answer({"StatusCode": 0}),
    "GET changes": Answer([{"Path": "/new", "Kind": 1}]),
    "GET archive": Answer(_archive()),
    "GET export": Answer(_archive()),
    "DELETE container": Answer(b"", 204),
    "DELETE image": Answer([]),
    "POST image": Answer({"status": f"sha256:{_ID}"}),
    "GET image": Answer({"Id": _ID, "Config": {"Env": ["A=1"], "Labels": {}}}),
}
_PATHS = {
    r"version": "version",
    r"containers/json": "containers",
    r"images/json": "images",
    r"containers/create": "create",
    r"containers/\w+/json": "container",
    r"containers/\w+/(attach|start|wait|changes|archive|export)": r"\1",
    r"containers/\w+": "container",
    r"images/create": "image",
    r"images/.+": "image",
}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...

    def _answer(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = re.sub(r"^/(v[\d.]+/)?|\?.*", "", self.path)
        part, name = next(each for each in _PATHS.items() if re.fullmatch(each[0], path))
        name = re.sub(rf"^{part}$", name, path)
        answer = self.server.answers[f"{self.command} {name}"]
        is_attached = name == "attach" and answer.status == 200
        self.send_response(101 if is_attached else answer.status)
        if is_attached:
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", "tcp")
        else:
            self.send_header(*answer.head())
        self.end_headers()
        self.wfile.write(answer.body)
        if answer.more == "chunk":
            self.wfile.write(b"ffffffffff\r\n")
        if answer.more == "silence":
            self.rfile.read(1)  # The client ends the connection.
        while answer.more in ("chunk", "blanks"):
            self.wfile.write(b" " * 65536)
        self.close_connection = True

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)


class Daemon(ThreadingMixIn, UnixStreamServer):
    """Answer requests on a socket as a Docker daemon, apart from one odd answer."""

    daemon_threads = True
    answers: Mapping[str, Answer] = ANSWERS

    def handle_error(self, *_: object) -> None:
        """Be silent: a client may close an odd answer."""

    def get_request(self) -> tuple[Any, Any]:
        """Return a connection with an address, which HTTP handlers expect."""
        return super().get_request()[0], ("", 0)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    socket = tmp_path / "s"
    with Daemon(str(socket), _Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        yield server
        server.shutdown()


def _run(folder: Path) -> None:
    root = folder / "root"
    root.mkdir()
    connection = daemon.connect()
    with daemon.refusals():
        container.run(connection, container.Spec(root=str(root), environment={}), ["true"])


def _load(folder: Path) -> None:
    archive = folder / "image.tar"
    archive.write_bytes(_archive())
    connection = daemon.connect()
    with daemon.refusals():
        image.import_image(
            connection, str(archive), image.ImageSpec("a.sif", "", "new:1", {"a": "b"})
        )


def _export(folder: Path) -> None:
    connection = daemon.connect()
    with daemon.refusals():
        base.make(connection, [], {"image": f"a@sha256:{_ID}", "tree": "", "folder": str(folder)})


def _pull(folder: Path) -> None:
    connection = daemon.connect()
    fields = {"image": "a:1", "tree": str(folder / "t"), "folder": str(folder), "release": "x"}
    with daemon.refusals():
        base.make(connection, [], fields)


def _leftovers(_: Path) -> None:
    daemon.remove_leftovers(daemon.connect())


def _labels(_: Path) -> None:
    assert isinstance(daemon.labels_of(daemon.connect(), "a:1"), dict)


WORK: Mapping[Callable[[Path], None], tuple[str, ...]] = {
    _leftovers: ("GET version", "GET containers", "GET images"),
    _labels: ("GET image",),
    _load: ("GET version", "POST image"),
    _run: (
        *("POST image", "POST create", "GET container", "POST attach", "POST start", "POST wait"),
        *("GET changes", "GET archive", "DELETE container", "DELETE image"),
    ),
    _export: ("GET image", "POST create", "GET export", "DELETE container"),
    _pull: ("POST image", "GET image"),
}
NAMES = ("Id", "StatusCode", "Config", "ApiVersion", "Components", "status", "error", "Kind")
BODIES: Mapping[str, Any] = {
    "nothing": b"",
    "no JSON": b"<html>",
    "half of JSON": b'{"Id": "a',
    "null": None,
    "a number": 7,
    "a text": "text",
    "a list of numbers": [7],
    "a list of lists": [[]],
    "an empty object": {},
    "an empty list": [],
    "a list of empty objects": [{}],
    "lists for values": {each: [1] for each in NAMES},
    "numbers for values": dict.fromkeys(NAMES, 7),
    "rows with numbers": [{"Id": 7, "Labels": {daemon.LABEL: 7}, "Path": 7, "Kind": "x"}],
    "rows with texts": [{"Id": "x", "Labels": "x", "Path": "", "Kind": []}],
    "odd labels": {"Id": _ID, "Config": {"Labels": [1], "Env": 7, "Tty": []}},
    "deep JSON": b"[" * 100_000,
    "a number of 10000 digits": b'{"StatusCode": ' + b"9" * 10_000 + b"}",
    "bytes outside UTF-8": b'{"message": "\xff\xfe"}',
    "a name with NUL": {"Id": "a\0b", "ApiVersion": "1.\0", "status": "a\0"},
}
CASES = [(work, place) for work, places in WORK.items() for place in places]
"""Each answer that a work reads."""


IDS = [f"{work.__name__[1:]}: {place}" for work, place in CASES]
cases = pytest.mark.parametrize(("work", "place"), CASES, ids=IDS)


def judge(work: Callable[[Path], None], folder: Path) -> str:
    """Return what is wrong with how ``work`` ends: it may raise an error with a message."""
    folder.mkdir()
    try:
        work(folder)
    except LumicontainerError as error:
        return "" if error.problems[0].what else "no message"
    except Exception as error:  # noqa: BLE001 - all others are faults
        return repr(error)
    return ""


@cases
def test_odd_bodies_of_the_daemon_are_messages(
    server: Daemon, tmp_path: Path, work: Callable[[Path], None], place: str
) -> None:
    faults = {}
    for number, (name, body) in enumerate(BODIES.items()):
        server.answers = {**ANSWERS, place: Answer(body, ANSWERS[place].status)}
        faults[name] = judge(work, tmp_path / str(number))
    assert set(faults.values()) == {""}, faults


@cases
def test_odd_states_of_the_daemon_are_messages(
    server: Daemon, tmp_path: Path, work: Callable[[Path], None], place: str
) -> None:
    odd = [Answer(body, status) for status in (204, 302, 404, 409, 500) for body in (b"", [7])]
    odd.append(Answer(ANSWERS[place].body, ANSWERS[place].status, is_cut=True))
    faults = {}
    for number, answer in enumerate(odd):
        server.answers = {**ANSWERS, place: answer}
        faults[answer.status, answer.body] = judge(work, tmp_path / str(number))
    assert set(faults.values()) == {""}, faults


def test_a_full_disk_of_the_daemon_is_named(server: Daemon, tmp_path: Path) -> None:
    why = "Error processing tar file(exit status 1): write /x: no space left on device"
    server.answers = {**ANSWERS, "POST image": Answer({"message": why}, 500)}
    with pytest.raises(SpaceError, match=daemon.IS_FULL):
        _load(tmp_path)


def test_a_full_disk_in_a_pull_is_named(server: Daemon, tmp_path: Path) -> None:
    full, absent = Answer({"error": "no space left on device"}), Answer(b"", 404)
    server.answers = {**ANSWERS, "POST image": full, "GET image": absent}
    with pytest.raises(SpaceError, match=daemon.IS_FULL):
        _pull(tmp_path)


def test_a_pull_runs_no_program_that_docker_s_configuration_names(
    server: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, ran = tmp_path / "docker-credential-of-others", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\necho '{{}}'\n")
    program.chmod(0o755)
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "of-others"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    _pull(tmp_path)
    assert not ran.exists()


WITHOUT_END = [
    (_leftovers, "GET version", "blanks"),
    (_leftovers, "GET containers", "blanks"),
    (_load, "POST image", "blanks"),
    (_pull, "POST image", "blanks"),
    (_pull, "POST image", "chunk"),
    (_export, "GET export", "blanks"),
    (_run, "POST wait", "blanks"),
    (_run, "GET changes", "blanks"),
    (_run, "GET archive", "blanks"),
]


@pytest.mark.parametrize(("work", "place", "more"), WITHOUT_END)
def test_an_answer_without_end_is_refused(
    server: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Path], None],
    place: str,
    more: str,
) -> None:
    monkeypatch.setattr(client, "LARGEST", 1 << 20)
    monkeypatch.setattr(budget, "LAYER", budget.LAYER._replace(most=1 << 20))
    absent = {"GET image": Answer(b"", 404)} if work is _pull else {}
    odd = Answer(b"", ANSWERS[place].status, more=more)
    server.answers = {**ANSWERS, **absent, place: odd}
    with pytest.raises(HostError, match="it sent more than 1 MiB"):
        work(tmp_path)


@pytest.mark.parametrize(("work", "place"), [(_export, "GET export"), (_run, "GET archive")])
def test_an_archive_that_stops_ends_the_wait(
    server: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Path], None],
    place: str,
) -> None:
    monkeypatch.setattr("docker.client.DEFAULT_TIMEOUT_SECONDS", 2)
    server.answers = {**ANSWERS, place: Answer(b"", more="silence")}
    with pytest.raises(HostError, match=r"does not answer(?s:.*)timed out"):
        work(tmp_path)


def test_a_row_of_progress_without_an_end_is_refused() -> None:
    with pytest.raises(HostError, match="a row of more than 1 MiB"), daemon.refusals():
        list(daemon.read_rows(b"x" * 1000 for _ in range(2000)))
