"""One connection serves many requests, and none that could get another one's answer."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lumicontainer.host.transfers import Client, HttpRequest
from lumicontainer.system import connections as connections_module
from lumicontainer.system.budget import Transfer
from lumicontainer.system.connections import Connections

pytestmark = pytest.mark.slow
LIMITS = Transfer(1 << 20, pauses=())
"""No attempt is repeated."""


class Server:
    """Count the connections that came, and answer each request with its path.

    It closes a connection after an answer to ``/last``, without saying so before.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.url = ""
        self.closed = threading.Event()


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            server.connections += 1

        def do_GET(self) -> None:
            body = self.path.encode() * 1000
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = self.path == "/last"

        def finish(self) -> None:
            super().finish()
            self.connection.close()
            server.closed.set()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def test_requests_follow_each_other_on_one_connection(server: Server) -> None:
    with Connections() as connections:
        client = Client(None, connections=connections)
        for path in ("/a", "/b", "/c"):
            assert client.read(server.url + path, LIMITS, {}).body == path.encode() * 1000
    assert server.connections == 1


def test_a_client_without_connections_opens_one_for_each_request(server: Server) -> None:
    for _ in range(3):
        Client(None).read(f"{server.url}/a", LIMITS, {})
    assert server.connections == 3


def test_a_connection_that_waited_too_long_is_not_used(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_LONGEST_WAIT", 0)
    with Connections() as connections:
        client = Client(None, connections=connections)
        for _ in range(3):
            client.read(f"{server.url}/a", LIMITS, {})
    assert server.connections == 3


def test_an_answer_that_was_not_read_is_not_taken_for_the_next_one(server: Server) -> None:
    with Connections() as connections:
        client = Client(None, connections=connections)
        call = HttpRequest(f"{server.url}/unread")
        client.begin(call, LIMITS, time.monotonic() + 60).close()
        assert client.read(f"{server.url}/a", LIMITS, {}).body == b"/a" * 1000
    assert server.connections == 2


def test_a_connection_that_the_server_has_closed_is_not_used(server: Server) -> None:
    with Connections() as connections:
        client = Client(None, connections=connections)
        client.read(f"{server.url}/last", LIMITS, {})
        assert server.closed.wait(60)
        assert client.read(f"{server.url}/a", LIMITS, {}).body == b"/a" * 1000
    assert server.connections == 2
