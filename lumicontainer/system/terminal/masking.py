"""Know what must be seen nowhere, and replace it in all that is printed or kept.

These are the contents of secret files and the passwords in URLs of this host's configuration. A
process has one set of them, because it has one terminal: each that comes to know a secret adds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

SHORTEST = 6
"""Characters: what is shorter stands in any file by chance."""
_MASK = "***"
_LONG_LINE = 4096
_TOKEN = 16
"""Characters from which on a user without a password is a token, and no name."""
_USER = r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#\s\"'<>]+)@"
_QUERY = r"(?i)[?&][^=&#\s]*(?:token|secret|passw|signature|sig|key|auth)[^=&#\s]*=([^&#\s\"']+)"
"""Both are compiled where they are wanted: every command would pay 3 ms for it."""
_NO_PASSWORDS = ("", "x-oauth-basic")

_hidden: dict[bytes, bool] = {}
"""Secrets, each with whether a layer may hold it by chance."""
_longest_first: tuple[bytes, ...] = ()


def hide(values: Iterable[str | bytes], *, common: bool = False) -> None:
    """Add secrets, in each form in which programs write them, to what is seen nowhere.

    ``common`` ones are words that stand in many files, and are not searched for in layers.
    """
    global _longest_first  # noqa: PLW0603 - one set a process, as there is one terminal
    for form in (form for value in values for form in _forms(value)):
        _hidden[form] = common and _hidden.get(form, True)
    _longest_first = tuple(sorted(_hidden, key=len, reverse=True))


def hide_urls(texts: Iterable[str]) -> None:
    """Add the passwords and tokens of the URLs that stand in texts."""
    for secret in (each for text in texts if "://" in text for each in url_secrets(text)):
        hide([secret], common=_is_word(secret))


def hide_file(content: bytes) -> None:
    """Add what a secret file holds: the whole of it, and each of its longer lines."""
    hide(piece.strip() for piece in (content, *content.splitlines()))


def forget() -> None:
    """Take all secrets out again."""
    global _longest_first  # noqa: PLW0603 - as above
    _hidden.clear()
    _longest_first = ()


def searched() -> tuple[bytes, ...]:
    """Return what must be found in no layer, the longest first."""
    return tuple(each for each in _longest_first if not _hidden[each])


def dumped() -> bytes:
    """Return what is searched for, for another process, which gets it by its stdin."""
    import base64  # noqa: PLC0415 - where there are secrets
    import json  # noqa: PLC0415 - where there are secrets

    return json.dumps([base64.b64encode(each).decode() for each in searched()]).encode()


def load(text: bytes) -> None:
    """Take what another process searches for."""
    import base64  # noqa: PLC0415 - where there are secrets
    import json  # noqa: PLC0415 - where there are secrets

    global _longest_first  # noqa: PLW0603 - as above
    _hidden.update(dict.fromkeys(map(base64.b64decode, json.loads(text or b"[]")), False))
    _longest_first = tuple(sorted(_hidden, key=len, reverse=True))


def masked(text: str) -> str:
    """Return text with each secret in it replaced."""
    for secret in _longest_first:
        text = text.replace(secret.decode("utf-8", "surrogateescape"), _MASK)
    return text


def masked_bytes(text: bytes) -> bytes:
    """Return bytes with each secret in them replaced."""
    for secret in _longest_first:
        text = text.replace(secret, _MASK.encode())
    return text


def holds(content: bytes) -> bool:
    """Tell whether something that is searched for stands in bytes."""
    return any(secret in content for secret in _longest_first if not _hidden[secret])


def url_secrets(text: str) -> Iterator[str]:
    """Yield the passwords and tokens of the URLs in a text."""
    for found in re.finditer(_USER, text):
        if secret := _secret_of(found[1]):
            yield secret
            if _is_word(secret):
                # Beside its user it is none.
                yield f"{found[1]}@"
    for found in re.finditer(_QUERY, text):
        yield found[1]


def _is_word(secret: str) -> bool:
    return len(secret) < _TOKEN and secret.isalpha()


def has_password(text: str) -> bool:
    """Tell whether a URL in a text holds a password or a token before its host."""
    return any(_secret_of(found[1]) for found in re.finditer(_USER, text))


def _secret_of(credentials: str) -> str:
    from urllib.parse import unquote  # noqa: PLC0415 - as above

    user, colon, password = credentials.partition(":")
    if password not in _NO_PASSWORDS:
        # A password of few letters is hidden beside its user alone.
        return password if len(unquote(password)) >= SHORTEST else f"{user}:{password}@"
    return user if colon or len(user) >= _TOKEN else ""


def without_password(url: str) -> str:
    """Return a URL without its user and password."""
    from urllib.parse import urlsplit, urlunsplit  # noqa: PLC0415 - where there are secrets

    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _forms(value: str | bytes) -> Iterator[bytes]:
    """Yield a secret as it is, as URLs write it, and what base64 makes of it.

    Of "user:password" base64 writes the password by where it begins, in one of three ways.
    """
    from urllib.parse import quote, unquote  # noqa: PLC0415 - where there are secrets

    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if len(raw) < SHORTEST:
        return
    yield raw
    if b"\n" in raw or len(raw) > _LONG_LINE:
        return
    text = raw.decode("utf-8", "surrogateescape")
    plain = unquote(text, errors="surrogateescape")
    whole = [text, plain, *(quote(plain, safe, errors="surrogateescape") for safe in ("", "/"))]
    for form in dict.fromkeys(whole):
        yield form.encode("utf-8", "surrogateescape")
    for secret in dict.fromkeys((raw, plain.encode("utf-8", "surrogateescape"))):
        yield from _in_base64(secret)


def _in_base64(secret: bytes) -> Iterator[bytes]:
    import base64  # noqa: PLC0415 - as above

    for before in range(3):
        letters = base64.b64encode(bytes(before) + secret).rstrip(b"=")
        # The first and the last letters hold bits of what stands beside the secret.
        start = -(-before * 8 // 6)
        end = (before + len(secret)) * 8 // 6
        if end - start > SHORTEST:
            yield letters[start:end]
            yield letters[start:end].translate(bytes.maketrans(b"+/", b"-_"))
