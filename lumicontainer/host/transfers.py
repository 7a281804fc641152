"""Download by http and https within the limits of ``system.budget``."""

import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from email.message import Message
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedReader, RawIOBase
from pathlib import Path
from socket import socket
from typing import IO, Any, NamedTuple, TypeVar
from urllib import request as urllib_request
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request

from lumicontainer.system import budget
from lumicontainer.system.budget import LimitError, Pace, Transfer

_CHALLENGE = re.compile(r'(?<!\w)(\w++)="([^"]*)"')
_BUSY = {408, 429, 500, 502, 503, 504}
"""The answers after which curl --retry repeats a download."""
_SECONDS = re.compile(r"[0-9]{1,9}")
_PIECE = 1 << 20
T = TypeVar("T")


class Answer(NamedTuple):
    """Hold a body and its headers."""

    body: bytes
    headers: Message


class Client(NamedTuple):
    """Download from servers that the certificates in ``trust`` prove, those of the system if None.

    Errors are ``OSError``, ``ValueError`` and ``HTTPException``.
    """

    trust: Path | None

    def read(self, url: str, limits: Transfer, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a request."""

        def attempt(end: float) -> Answer:
            with self._answer(url, headers, limits, end) as answer:
                return Answer(_body(answer, limits), answer.headers)

        return repeat(attempt, limits)

    def save(
        self, url: str, file: Path, limits: Transfer, count: Callable[[int], None] | None = None
    ) -> None:
        """Download a body to a file; it may be larger than the memory.

        ``count`` gets the size of each piece, and may raise an error that ends the download.
        """

        def attempt(end: float) -> None:
            with self._answer(url, {}, limits, end) as answer, file.open("wb") as copy:
                _copy(answer, copy, limits, count)

        repeat(attempt, limits)

    def _answer(
        self, url: str, headers: Mapping[str, str], limits: Transfer, end: float
    ) -> HTTPResponse:
        try:
            return self._open(url, headers, Pace(limits, end))
        except HTTPError as error:
            kind, _, challenge = error.headers.get("WWW-Authenticate", "").partition(" ")
            if error.code != 401 or kind.lower() != "bearer":
                raise
            error.close()
        fields = dict(_CHALLENGE.findall(challenge))
        realm = fields.pop("realm", "")
        # Anyone gets such a token. Still, no protocol weaker than the request's is used for it.
        if not _is_as_safe(realm, url):
            raise ValueError(f"the registry asks to log in at '{realm}'")
        token = self._token(realm, fields, end)
        return self._open(url, headers, Pace(limits, end), f"Bearer {token}")

    def _token(self, realm: str, fields: Mapping[str, str], end: float) -> str:
        limits = budget.TOKEN
        pace = Pace(limits, min(end, time.monotonic() + limits.seconds))
        with self._open(f"{realm}?{urlencode(fields)}", {}, pace) as answer:
            token_data = json_object(_body(answer, limits))
        token = token_data.get("token") or token_data.get("access_token")
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            raise ValueError(f"'{realm}' did not return a token")
        return token

    def _open(
        self, url: str, headers: Mapping[str, str], pace: Pace, authorization: str = ""
    ) -> HTTPResponse:
        request = Request(url, headers=dict(headers))  # noqa: S310 - _opener opens only two protocols
        if authorization:
            # A registry redirects to a store of others, which gets no token.
            request.add_unredirected_header("Authorization", authorization)
        try:
            answer: HTTPResponse = _opener(self.trust, pace).open(request, timeout=pace.patience())
        except OverflowError as error:
            raise ValueError(f"a redirect names an invalid port: {error}") from error
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


def _body(answer: HTTPResponse, limits: Transfer) -> bytes:
    _require_small(answer, limits)
    body, size = bytearray(), answer.length
    while piece := answer.read(_PIECE):
        body += piece
        _require_no_more(len(body), limits)
    _require_whole(len(body), size)
    return bytes(body)


def _copy(
    answer: HTTPResponse,
    copy: IO[bytes],
    limits: Transfer,
    count: Callable[[int], None] | None,
) -> None:
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
    def __init__(self, sock: socket, *words: Any, pace: Pace, **named: Any) -> None:
        super().__init__(sock, *words, **named)
        self.fp.close()
        self.fp = _Pieces(_PacedReader(sock, pace))


def _connect(kind: type[HTTPConnection], pace: Pace, host: str, **named: Any) -> HTTPConnection:
    connection = kind(host, **named)
    connection.response_class = partial(_PacedResponse, pace=pace)  # type: ignore[assignment]
    return connection


class _Redirects(urllib_request.HTTPRedirectHandler):
    """Follow ten redirects at most, and none to a weaker protocol."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if not _is_as_safe(newurl, req.full_url):
            raise ValueError(f"the server redirects to '{newurl}'")
        # The handler would read the whole of this answer into memory.
        fp.close()
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(trust: Path | None, pace: Pace) -> urllib_request.OpenerDirector:
    """Return what opens URLs by http and https, and by no other protocol."""
    context = ssl.create_default_context(cafile=trust)
    opener = urllib_request.OpenerDirector()
    plain, safe = urllib_request.HTTPHandler(), urllib_request.HTTPSHandler(context=context)
    plain.http_open = lambda req: plain.do_open(  # type: ignore[method-assign]
        partial(_connect, HTTPConnection, pace), req
    )
    safe.https_open = lambda req: safe.do_open(  # type: ignore[method-assign]
        partial(_connect, HTTPSConnection, pace), req, context=context
    )
    rest = (urllib_request.ProxyHandler(), urllib_request.UnknownHandler(), _Redirects())
    errors = (urllib_request.HTTPDefaultErrorHandler(), urllib_request.HTTPErrorProcessor())
    for handler in (plain, safe, *rest, *errors):
        opener.add_handler(handler)
    return opener
