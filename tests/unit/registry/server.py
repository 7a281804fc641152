"""A registry in this process, with the faults that a test gives it."""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from lumicontainer.registry.cutting import digest_of_bytes


class Reply(NamedTuple):
    """Hold an answer; ``cut`` ends its body, and the connection, after as many bytes.

    Without a code, the connection ends at once.
    """

    code: int
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    cut: int | None = None


Fault = Callable[[str, str], Reply | None]
"""Return the wrong answer to a request by its method and path; None for the right answer."""


@dataclass
class Registry:
    """Hold what a registry has, and what it was asked for."""

    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    """The values of ``Authorization`` that came."""
    fault: Fault = lambda *_: None
    login: str = ""
    """USER:PASSWORD, by the scheme ``basic`` or ``bearer``."""
    scheme: str = "bearer"
    largest: int = 1 << 40
    """The bytes of the largest body."""
    sessions: dict[str, bytes] = field(default_factory=dict)
    received: int = 0
    ranges: bool = True
    lists_referrers: bool = False
    knows_etags: bool = False
    keeps: bool = False
    """Whether a connection may serve many requests."""
    connections: int = 0

    def count(self, method: str, part: str = "") -> int:
        """Return how many requests of a method came."""
        return sum(each == method and part in path for each, path in list(self.requests))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, registry: Registry, *words: Any) -> None:
        self.registry = registry
        registry.connections += 1
        super().__init__(*words)

    def do_GET(self) -> None:
        self._serve("GET")

    def do_HEAD(self) -> None:
        self._serve("HEAD")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _serve(self, method: str) -> None:
        registry, path = self.registry, self.path
        self.close_connection = not registry.keeps
        registry.requests.append((method, path))
        registry.logins += self.headers.get_all("Authorization", [])
        size = int(self.headers.get("Content-Length", 0))
        if size > registry.largest:
            self._answer(method, Reply(413))
            return
        body = self.rfile.read(size)
        if len(body) < size:
            return  # The client went away.
        reply = registry.fault(method, path) or self._refusal()
        if reply is None:
            registry.received += size
            reply = getattr(self, f"_{method.lower()}")(urlsplit(path), body)
        self._answer(method, reply)

    def _answer(self, method: str, reply: Reply) -> None:
        if not reply.code:
            return
        self.send_response(reply.code)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if method != "HEAD":
            self.wfile.write(reply.body[: reply.cut])

    def _refusal(self) -> Reply | None:
        registry = self.registry
        if not registry.login:
            return None
        basic = f"Basic {base64.b64encode(registry.login.encode()).decode()}"
        sent = self.headers.get("Authorization", "")
        if self.path.startswith("/token"):
            return Reply(200, b'{"token": "t0"}') if sent == basic else Reply(401)
        if sent == ("Bearer t0" if registry.scheme == "bearer" else basic):
            return None
        challenge = 'Basic realm="x"'
        if registry.scheme == "bearer":
            challenge = f'Bearer realm="http://{registry.host}/token",service="s",scope="a:b"'
        return Reply(401, headers={"WWW-Authenticate": challenge})

    def _get(self, url: Any, _: bytes) -> Reply:
        *_, kind, name = url.path.split("/")
        if kind == "tags":
            return self._tags()
        content = (self.registry.blobs if kind == "blobs" else self.registry.manifests).get(name)
        if content is None:
            return Reply(404, b'{"errors": [{"code": "X_UNKNOWN", "message": "unknown to it"}]}')
        part = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if part and self.registry.ranges:
            at, end = int(part[1]), len(content) - 1
            return Reply(206, content[at:], {"Content-Range": f"bytes {at}-{end}/{end + 1}"})
        return Reply(200, content, {"ETag": _etag(content)} if self.registry.knows_etags else {})

    _head = _get

    def _tags(self) -> Reply:
        tags = [each for each in self.registry.manifests if not each.startswith("sha256:")]
        if not tags:
            return Reply(404, b'{"errors": [{"code": "NAME_UNKNOWN", "message": "no such name"}]}')
        return Reply(200, json.dumps({"name": "team/image", "tags": tags}).encode())

    def _post(self, url: Any, _: bytes) -> Reply:
        number = str(len(self.registry.sessions))
        self.registry.sessions[number] = b""
        return Reply(202, headers={"Location": f"{url.path}{number}?state=1"})

    def _patch(self, url: Any, body: bytes) -> Reply:
        number, sessions = url.path.rpartition("/")[2], self.registry.sessions
        begin = len(sessions[number])
        if self.headers["Content-Range"] != f"{begin}-{begin + len(body) - 1}":
            return Reply(416)
        sessions[number] += body
        return Reply(202, headers={"Location": f"{url.path}?state={begin}"})

    def _put(self, url: Any, body: bytes) -> Reply:
        folder, _, name = url.path.rpartition("/")
        if folder.endswith("/manifests"):
            expected, before = self.headers.get("If-Match"), self.registry.manifests.get(name, b"")
            if expected and expected != _etag(before):
                return Reply(412)
            self.registry.manifests[name] = self.registry.manifests[digest_of_bytes(body)] = body
            return Reply(201, headers={"OCI-Subject": "x"} if self.registry.lists_referrers else {})
        content, digest = self.registry.sessions[name] + body, parse_qs(url.query)["digest"][0]
        if digest_of_bytes(content) != digest:
            return Reply(400, b'{"errors": [{"code": "DIGEST_INVALID"}]}')
        self.registry.blobs[digest] = content
        return Reply(201)


def _etag(content: bytes) -> str:
    return f'"{digest_of_bytes(content)}"'


@contextmanager
def serving() -> Iterator[Registry]:
    """Serve an empty registry over loopback."""
    registry = Registry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *words: _Handler(registry, *words))
    registry.host = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
