"""Download and upload by http and https within the limits of ``system.budget``."""

import base64
import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from functools import cached_property, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedReader, BytesIO, RawIOBase
from ipaddress import ip_address
from pathlib import Path
from socket import socket
from typing import IO, Any, NamedTuple, Protocol, TypeVar
from urllib import request as urllib_request
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request

from lumicontainer.system import budget
from lumicontainer.system.budget import LimitError, Pace, Transfer
from lumicontainer.system.connections import Connections, Ended, Lease

_CHALLENGE = re.compile(r'(?<!\w)(\w++)="([^"]*)"')
_BUSY = {408, 429, 500, 502, 503, 504}
"""The answers after which curl --retry repeats a download."""
_SECONDS = re.compile(r"[0-9]{1,9}")
_PIECE = 1 << 20
_SENT_AT_ONCE = 256 << 10
"""Bytes that must be sent within the silence that a transfer allows."""
T = TypeVar("T")


class ByteSink(Protocol):
    """Take the bytes of a body."""

    def write(self, piece: bytes, /) -> object:
        """Take the next bytes."""


class Answer(NamedTuple):
    """Hold a body and its headers."""

    body: bytes
    headers: Message


class HttpRequest(NamedTuple):
    """Hold a request; ``body`` opens the ``size`` bytes that it sends, once for each attempt."""

    url: str
    headers: Mapping[str, str] = {}
    method: str = "GET"
    body: Callable[[], IO[bytes]] | None = None
    size: int = 0


class Login(NamedTuple):
    """Hold the login of a registry: a user and a password, or a token that stands for both."""

    user: str = ""
    password: str = ""
    token: str = ""
    server: str = ""
    """The host of the registry, with its port if any: no other server gets the login."""

    @property
    def basic(self) -> str:
        """Return the value of the header ``Authorization`` for a user and a password."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}" if self.user else ""


NO_LOGIN = Login()


@dataclass(frozen=True)
class Client:
    """Ask servers that the certificates in ``trust`` prove, or the system's if it is None.

    ``login`` is what the user has for the server, if anything. Errors are ``OSError``,
    ``ValueError`` and ``HTTPException``. Threads may share a client.
    """

    trust: Path | None
    login: Login = NO_LOGIN
    connections: Connections | None = None
    """The connections that wait between requests; each serves one request if None."""
    _granted: dict[str, str] = field(default_factory=dict)
    """By server: the value of ``Authorization`` that it accepted last."""

    @cached_property
    def _context(self) -> ssl.SSLContext:
        # It reads all certificates, for tens of milliseconds.
        return ssl.create_default_context(cafile=self.trust)

    @cached_property
    def _opener(self) -> urllib_request.OpenerDirector:
        # It asks the environment for proxies.
        return _make_opener(self._context, self.connections)

    def read(self, url: str, limits: Transfer, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a request."""

        def attempt(end: float) -> Answer:
            return self.ask(HttpRequest(url, headers), limits, end)

        return repeat(attempt, limits)

    def save(
        self, url: str, file: Path, limits: Transfer, count: Callable[[int], None] | None = None
    ) -> None:
        """Download a body to a file; it may be larger than the memory.

        ``count`` gets the size of each piece, and may raise an error that ends the download.
        """

        def attempt(end: float) -> None:
            with self.begin(HttpRequest(url), limits, end) as answer, file.open("wb") as copy:
                copy_body(answer, copy, limits, count)

        repeat(attempt, limits)

    def ask(self, call: HttpRequest, limits: Transfer, end: float) -> Answer:
        """Return the answer to one attempt of a request."""
        with self.begin(call, limits, end) as answer:
            return Answer(_body(answer, limits), answer.headers)

    def begin(self, call: HttpRequest, limits: Transfer, end: float) -> HTTPResponse:
        """Return the answer to one attempt of a request, whose body is not read."""
        server = "//".join(urlsplit(call.url)[:2])
        try:
            return self._open(call, Pace(limits, end), self._granted.get(server, ""))
        except HTTPError as error:
            # The store to which a registry redirects gets neither its login nor its token.
            is_own = error.code == 401 and urlsplit(error.url).netloc == urlsplit(call.url).netloc
            granted = self._authorization(error, end) if is_own else ""
            if not granted:
                raise
            error.close()
        answer = self._open(call, Pace(limits, end), granted)
        self._granted[server] = granted
        return answer

    def _authorization(self, refusal: HTTPError, end: float) -> str:
        """Return what a server asks for in ``Authorization``; empty if there is no login for it."""
        login = self.login if urlsplit(refusal.url).netloc == self.login.server else NO_LOGIN
        challenges = [
            each.partition(" ") for each in refusal.headers.get_all("WWW-Authenticate", [])
        ]
        for kind, _, challenge in challenges:
            if kind.lower() == "bearer":
                fields = dict(_CHALLENGE.findall(challenge))
                return f"Bearer {self._token(refusal.url, login, fields, end)}"
            if kind.lower() == "basic":
                return login.basic
        return ""

    def _token(self, url: str, login: Login, fields: dict[str, str], end: float) -> str:
        realm = fields.pop("realm", "")
        # Without a login, anyone gets such a token. Still, no weaker protocol is used for it.
        is_safe = _is_as_safe(realm, url) and _reach(realm) in ("", _reach(url))
        if not is_safe or not (login == NO_LOGIN or _keeps(realm, url)):
            raise ValueError(f"the registry asks to log in at '{realm}'")
        limits = budget.TOKEN
        end = min(end, time.monotonic() + limits.seconds)
        call, authorization = HttpRequest(f"{realm}?{urlencode(fields)}"), login.basic
        if login.token:
            form = {**fields, "grant_type": "refresh_token", "client_id": "lumicontainer"}
            content = urlencode({**form, "refresh_token": login.token}).encode()
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            call = HttpRequest(realm, kind, "POST", lambda: BytesIO(content), len(content))
        with self._open(call, Pace(limits, end), authorization) as answer:
            token_data = json_object(_body(answer, limits))
        token = token_data.get("token") or token_data.get("access_token")
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            raise ValueError(f"'{realm}' did not return a token")
        return token

    def _open(self, call: HttpRequest, pace: Pace, authorization: str) -> HTTPResponse:
        headers = dict(call.headers)
        if call.method not in ("GET", "HEAD"):
            headers = {"Content-Type": "application/octet-stream", **headers}
            headers["Content-Length"] = str(call.size)
        body = call.body() if call.body else None
        request = Request(call.url, body, headers, method=call.method)  # noqa: S310 - see _make_opener
        request.pace = pace  # type: ignore[attr-defined]
        if authorization:
            # A registry redirects to a store of others, which gets no token.
            request.add_unredirected_header("Authorization", authorization)
        try:
            answer: HTTPResponse = self._opener.open(request, timeout=pace.patience())
        except OverflowError as error:
            raise ValueError(f"a redirect names an invalid port: {error}") from error
        finally:
            if body:
                body.close()
        return answer


def json_object(body: bytes) -> dict[str, Any]:
    """Return the object that a body is in JSON; empty if it is another value, or no JSON."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _is_as_safe(url: str, other: str) -> bool:
    return url.partition("://")[0].lower() in ("https", other.partition("://")[0].lower())


def _reach(url: str) -> str:
    """Return from where alone the address in a URL is reached: "host", "link", or "" for others.

    A cloud gives a machine its passwords at such an address, and a token goes to the registry.
    """
    host = ""
    with suppress(ValueError):
        host = urlsplit(url).hostname or ""
        address = ip_address(host)
        is_own = address.is_loopback or address.is_unspecified
        return "host" if is_own else "link" if address.is_link_local else ""
    return "host" if host == "localhost" or host.endswith(".localhost") else ""


def _keeps(realm: str, url: str) -> bool:
    """Return whether a password may go to ``realm``: by https, or to the registry's own host."""
    return realm.lower().startswith("https:") or urlsplit(realm).hostname == urlsplit(url).hostname


def _body(answer: HTTPResponse, limits: Transfer) -> bytes:
    _require_small(answer, limits)
    body, size = bytearray(), answer.length
    while piece := answer.read(_PIECE):
        body += piece
        _require_no_more(len(body), limits)
    _require_whole(len(body), size)
    return bytes(body)


def copy_body(
    answer: HTTPResponse,
    copy: ByteSink,
    limits: Transfer,
    count: Callable[[int], None] | None,
) -> None:
    """Write the body of an answer; raise ``LimitError`` or ``ConnectionError`` for another size."""
    _require_small(answer, limits)
    got, size = 0, answer.length
    while piece := answer.read(_PIECE):
        got += len(piece)
        _require_no_more(got, limits)
        if count:
            count(len(piece))
        copy.write(piece)
    _require_whole(got, size)


def _require_small(answer: HTTPResponse, limits: Transfer) -> None:
    # An answer that would be too large is refused before its bytes come.
    _require_no_more(answer.length or 0, limits)


def _require_no_more(got: int, limits: Transfer) -> None:
    if got > limits.most:
        raise LimitError(f"it has more than {limits.most} bytes")


def _require_whole(got: int, size: int | None) -> None:
    # A read of some bytes does not notice that the connection ended early.
    if size is not None and got != size:
        raise ConnectionError(f"expected {size} bytes, got {got}")


def repeat(download: Callable[[float], T], limits: Transfer) -> T:
    """Return what is downloaded; repeat it while the server is busy or the connection breaks.

    ``download`` gets the time of the clock at which all attempts end.
    """
    end = time.monotonic() + limits.seconds
    for pause in limits.pauses:
        try:
            return download(end)
        except (OSError, HTTPException) as error:
            wait = _wait(error, pause, limits)
            if wait is None or time.monotonic() + wait >= end:
                raise
        time.sleep(wait)
    return download(end)


def _wait(error: Exception, pause: float, limits: Transfer) -> float | None:
    """Return the seconds until a download that failed is repeated; None if that is useless."""
    if isinstance(error, HTTPError):
        header = error.headers.get("Retry-After", "").strip()
        pause = int(header) if _SECONDS.fullmatch(header) else pause
        return pause if error.code in _BUSY and pause <= limits.longest_pause else None
    why = error.reason if isinstance(error, URLError) else error
    return pause if isinstance(why, (ConnectionError, TimeoutError, IncompleteRead)) else None


class _PacedReader(RawIOBase):
    """Read from a socket at the pace of a transfer: headers, redirects and bodies alike."""

    def __init__(self, source: socket, pace: Pace) -> None:
        self._socket, self._pace = source, pace
        self._raw = source.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(self._pace.patience())
        size = self._raw.readinto(buffer) or 0
        self._pace.count(size)
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Pieces(BufferedReader):
    """Read no more at once than was asked for: a chunk may state that it has -1 bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            raise ValueError(f"expected a number of bytes, got {size}")
        return super().read(size)


class _PacedResponse(HTTPResponse):
    def __init__(
        self, sock: socket, *words: Any, pace: Pace, ended: Ended = lambda _: None, **named: Any
    ) -> None:
        super().__init__(sock, *words, **named)
        self.fp.close()
        self.fp = _Pieces(_PacedReader(sock, pace))
        self._ended = ended

    def close(self) -> None:
        super().close()
        # What is left of an answer would be taken for the next one.
        self._ended(self.length == 0 and not self.chunked and not self.will_close)
        self._ended = lambda _: None


def _connect(kind: type[HTTPConnection], host: str, **named: Any) -> HTTPConnection:
    connection = kind(host, **named)
    connection.blocksize = _SENT_AT_ONCE
    connection.request = partial(_send, connection, connection.request)  # type: ignore[method-assign]
    return connection


def _send(
    connection: HTTPConnection, request: Callable[..., None], *words: Any, **named: Any
) -> None:
    """Send a request; a server that refuses its body answers, and closes the connection at once."""
    try:
        request(*words, **named)
    except (BrokenPipeError, ConnectionResetError):
        if connection.sock is None:
            raise


class _Redirects(urllib_request.HTTPRedirectHandler):
    """Follow ten redirects at most, and none to a weaker protocol."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if not _is_as_safe(newurl, req.full_url):
            raise ValueError(f"the server redirects to '{newurl}'")
        # The handler would read the whole of this answer into memory.
        fp.close()
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request:
            request.pace = req.pace  # type: ignore[attr-defined]
        return request


def _make_opener(
    context: ssl.SSLContext, connections: Connections | None
) -> urllib_request.OpenerDirector:
    """Return what opens URLs by http and https, and by no other protocol.

    Each request has the ``pace`` of its answers. Threads may share it.
    """
    opener = urllib_request.OpenerDirector()
    plain, safe = urllib_request.HTTPHandler(), urllib_request.HTTPSHandler(context=context)

    def lend(kind: type[HTTPConnection], req: Any) -> Any:
        respond = partial(_PacedResponse, pace=req.pace)
        return partial(Lease, connections, partial(_connect, kind), respond)

    plain.http_open = lambda req: plain.do_open(lend(HTTPConnection, req), req)  # type: ignore[method-assign]
    safe.https_open = lambda req: safe.do_open(  # type: ignore[method-assign]
        lend(HTTPSConnection, req), req, context=context
    )
    rest = (urllib_request.ProxyHandler(), urllib_request.UnknownHandler(), _Redirects())
    errors = (urllib_request.HTTPDefaultErrorHandler(), urllib_request.HTTPErrorProcessor())
    for handler in (plain, safe, *rest, *errors):
        opener.add_handler(handler)
    return opener
