"""Check URLs, wherever they are written: in recipes, requests, files of requirements, imports.

A URL that is accepted is kept: in records, locks, logs and images. The configuration of a site,
such as pip's or ``--mirror``, may have passwords, and is not kept.
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence

from lumicontainer.errors import Fault

HTTPS, HTTP = "https", "http"
_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
"""The characters of RFC 3986."""
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)[^?#]*(?:\?(?P<query>[^#]*))?(?:#.*)?"
)
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|[A-Za-z0-9][A-Za-z0-9._-]*)(?::([0-9]{1,5}))?")
_LARGEST_PORT = 65535
NO_HOST = "it has no valid host"
_SECRET = re.compile(
    r"(?:.*[-_.])?(?:token|secret|pass(?:word|wd)?|signature|sig|auth|key|apikey|credential)", re.I
)
"""Names of the fields of a query that hold a secret."""
_ELSEWHERE = "take it out; passwords belong to pip config, --secret or --mirror FROM=TO"


def find_url_fault(
    url: str, *, schemes: Sequence[str] = (HTTPS,), pinned: bool = False
) -> Fault | None:
    """Return why a URL is refused, without any secret of it, or None.

    Only ``pinned`` bytes, whose hash is known, may come by plain http.
    """
    for why, hint in _faults(url, schemes, pinned=pinned):
        return Fault(f"invalid URL '{without_secrets(url)}'", why, hint)
    return None


def _faults(url: str, schemes: Sequence[str], *, pinned: bool) -> Iterator[tuple[str, str]]:
    write = f"write {HTTPS}://HOST/PATH"
    parts = _URL.fullmatch(url)
    if not _CHARACTERS.fullmatch(url):
        yield "it has a character that no URL has", write
    elif not parts or parts["scheme"] not in schemes:
        yield f"expected {', '.join(f'{each}://…' for each in schemes)}", write
    elif "@" in parts["authority"]:
        yield "it holds a user name or a password, and would be kept", _ELSEWHERE
    elif not (parts["authority"] or parts["scheme"] == "file") or not has_valid_host(url):
        yield NO_HOST, write
    else:
        for field in re.split("[&;]", parts["query"] or ""):
            name, equals, _ = field.partition("=")
            if equals and _SECRET.fullmatch(name):
                yield f"it holds a secret, '{name}', and would be kept", _ELSEWHERE
        if parts["scheme"] == HTTP and not pinned:
            hint = f"write {HTTPS}://, or add its sha256"
            yield "by plain http anyone on the way can change it", hint


def has_valid_host(url: str) -> bool:
    """Return whether the host and the port of a URL can be read; it may have neither."""
    authority = re.split("[/?#]", url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    match = _HOST.fullmatch(authority)
    if match is None:
        return not authority
    try:
        ipaddress.ip_address(match[1] or "::")
    except ValueError:
        return False
    return int(match[2] or 0) <= _LARGEST_PORT


def without_secrets(url: str) -> str:
    """Return a URL without its user, password, query and fragment; it may be one that is broken."""
    start, slashes, rest = re.split(r"[?#]", url, maxsplit=1)[0].partition("://")
    return f"{start}{slashes}{rest.rpartition('@')[2]}" if slashes else start.rpartition("@")[2]
