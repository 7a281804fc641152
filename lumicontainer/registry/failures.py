"""Turn the errors of a registry into messages with hints."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from urllib.error import HTTPError, URLError

from lumicontainer.errors import DownloadError, Problem, SpaceError
from lumicontainer.host.transfers import NO_LOGIN, Login, json_object
from lumicontainer.registry.image_name import ImageName
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.output import line

_REASON = 4096
_AGAIN = "repeat the command when the registry answers: it goes on with what is there"
_HINTS = {
    400: "repeat the command; if it stays so, the image changes while it is sent",
    404: "check the name and the tag, and whether your login may see them",
    405: "the registry takes no images: it may be read-only, or a mirror",
    413: "ask the operator of the registry for a higher limit",
    429: "repeat the command later: the registry limits how much it answers",
    507: "ask the operator of the registry for more space",
}


@contextmanager
def reporting(what: str, reference: ImageName, login: Login) -> Iterator[None]:
    """Raise the errors of a registry as ``DownloadError``, and that of a full disk as its own."""
    try:
        yield
    except (OSError, ValueError, HTTPException) as error:
        raise _failure(error, what, reference, login) from error


def _failure(
    error: Exception, what: str, reference: ImageName, login: Login
) -> DownloadError | SpaceError:
    if isinstance(error, HTTPError):
        why = f"the registry answers {error.code} {line(str(error.reason))}{_said(error)}"
        return DownloadError(
            Problem(what, str(reference), why, _hint(error.code, reference, login))
        )
    if isinstance(error, OSError) and not isinstance(error, URLError):
        space = refused(error, what)
        if isinstance(space, SpaceError):
            return space
    cause = error.reason if isinstance(error, URLError) else error
    why = line(str(cause)) or type(cause).__name__
    hint = _AGAIN
    if isinstance(cause, ssl.SSLCertVerificationError):
        hint = "name the certificates of its operator: export SSL_CERT_FILE=FILE"
    elif isinstance(cause, ssl.SSLError):
        hint = "the registry must speak https; only one of this host may do without"
    return DownloadError(Problem(what, str(reference), why, hint))


def _said(error: HTTPError) -> str:
    """Return the words in the answer of a registry, if it has some."""
    try:
        errors = json_object(error.read(_REASON)).get("errors")
        texts = [each.get("message") or each.get("code") for each in errors or ()]
    except (OSError, HTTPException, ValueError, TypeError, AttributeError):
        return ""
    text = "; ".join(str(each)[:200] for each in texts[:3] if each)
    return f": {line(text)}" if text else ""


def _hint(code: int, reference: ImageName, login: Login) -> str:
    if code in (401, 403):
        enter = f"apptainer registry login --username NAME docker://{reference.host}"
        if login == NO_LOGIN:
            return f"log in: {enter}"
        return f"ask its owner to let your login do that, or use another one: {enter}"
    return _HINTS.get(code, _AGAIN)
