"""Replace secrets in everything that is printed or kept.

Secrets are the contents of secret files, and the passwords in URLs of the host's configuration. The
set is one for the whole process, as the terminal is.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import IO
from urllib.parse import quote, unquote, urlsplit, urlunsplit

SHORTEST = 6
"""Characters; a shorter text occurs in any file by chance."""
MASK = b"***"
_LONG_LINE = 4096
_PIECE = 1 << 22
_TOKEN = 16
"""Characters from which a user name without a password is a token."""
_USER = re.compile(r"[A-Za-z0-9+.-]://([^/?#\s\"'<>]+)@")
_FIELD = re.compile(r"[?&]([^=&#\s]*+)")
_OF_SECRET = re.compile("token|secret|passw|signature|sig|key|auth", re.IGNORECASE)
_VALUE = re.compile(r"=([^&#\s\"']+)")
_AROUND = re.compile(
    rb"-----(?:BEGIN|END) [A-Z0-9 ]+-----|\[[A-Za-z]+[0-9]{0,2}(?:[ ._-][A-Za-z]+[0-9]{0,2})*\]"
)
"""Lines of secret files that other files have too: around a key (RFC 7468), or above settings."""
_SECRET_NAME = re.compile(
    r"(?i)(?:.*_)?(?:TOKEN|SECRET|(?:PG|SSH)?PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?"
    r"|(?:API|ACCESS|SECRET|PRIVATE|AUTH)_?KEY)(?:_ID)?|(?:.*_)?(?:GITHUB|GITLAB|GH|EXT)_PAT"
)
"""Variables such as HF_TOKEN, WANDB_API_KEY and AWS_SECRET_ACCESS_KEY; no HF_TOKEN_PATH."""
_SECRET_VALUE = re.compile(r"(?!/)[^\s<>]{6,}")
_PHRASE_NAME = re.compile(r"(?i)(?:.*_)?(?:SECRET|(?:PG|SSH)?PASSWORD|PASSWD|PASSPHRASE)")
_PHRASE = re.compile(r"(?!/)[^\n<>]{6,}")
"""Passwords may have blanks; a token with blanks stands for one, as in *your token*."""
_SECRET_SHAPE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|glpat-[\w-]{20,}"
    r"|sk-[\w-]{20,}|AKIA[A-Z0-9]{16}|xox[abp]-[\w-]{20,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""Tokens of Hugging Face, GitHub, GitLab, OpenAI, AWS and Slack, web tokens and private keys."""
_SECRET_FILE = re.compile(
    r"(?:.*/)?(?:\.netrc|\.git-credentials|\.pypirc|id_(?:rsa|dsa|ecdsa|ed25519)(?:_\w+)?|kaggle\.json"
    r"|\.aws/credentials|\.docker/config\.json|\.(?:cache/)?huggingface/token)"
)
"""Files in which other programs keep passwords, tokens and private keys."""
_ASSIGNED = re.compile(
    r"""(?<![\w$-])([A-Za-z_]\w*)=(?:'([^'\n]*)'|"([^"$`\n]*)"|([^\s;&|'"$`()]+))"""
)
_OPTION = re.compile(
    r"""(?<!\S)--?((?:[a-z]+-)*(?:token|password|api-key))[= ]+['"]?([^\s'"$`]+)"""
)
_NO_PASSWORDS = ("", "x-oauth-basic")

_hidden: dict[bytes, bool] = {}
"""Each secret, longest first, and whether a layer may hold it by chance."""


def hide(values: Iterable[str | bytes], *, common: bool = False) -> None:
    """Add secrets, in each form in which programs write them.

    ``common`` secrets are ordinary words: layers are not searched for them.
    """
    for form in (form for value in values for form in _forms(value)):
        _hidden[form] = common and _hidden.get(form, True)
    _sort()


def _sort() -> None:
    ordered = sorted(_hidden.items(), key=lambda item: len(item[0]), reverse=True)
    _hidden.clear()
    _hidden.update(ordered)


def hide_urls(texts: Iterable[str]) -> None:
    """Add the passwords and tokens of the URLs in texts."""
    secrets = {each for text in texts if "://" in text for each in url_secrets(text)}
    words = set(filter(_is_word, secrets))
    hide(secrets - words)
    hide(words, common=True)


def hide_file(content: bytes) -> None:
    """Add the content of a secret file, and each of its lines; the lines around keys are common."""
    lines = [line.strip() for line in content.splitlines()]
    hide([content.strip(), *(line for line in lines if not _AROUND.fullmatch(line))])
    hide((line for line in lines if _AROUND.fullmatch(line)), common=True)


def searched() -> tuple[bytes, ...]:
    """Return the secrets that no layer may contain, longest first."""
    return tuple(each for each, common in _hidden.items() if not common)


def dumped() -> bytes:
    """Return ``searched`` as text for the stdin of another process."""
    return json.dumps([base64.b64encode(each).decode() for each in searched()]).encode()


def load(text: bytes) -> None:
    """Add the secrets that another process dumped."""
    _hidden.update(dict.fromkeys(map(base64.b64decode, json.loads(text or b"[]")), False))
    _sort()


def longest() -> int:
    """Return the bytes of the longest secret that can stand in one line."""
    return max((len(each) for each in _hidden if b"\n" not in each), default=0)


def masked(text: str) -> str:
    """Return text with each secret replaced."""
    for secret in _hidden:
        text = text.replace(secret.decode("utf-8", "surrogateescape"), MASK.decode())
    return text


def masked_bytes(text: bytes) -> bytes:
    """Return bytes with each secret replaced."""
    for secret in _hidden:
        text = text.replace(secret, MASK)
    return text


def holds(content: bytes) -> bool:
    """Return whether bytes contain a secret that is searched for."""
    return any(secret in content for secret in searched())


def holds_in(stream: IO[bytes]) -> bool:
    """Return whether what is read from a stream contains a secret that is searched for."""
    return any(holds(piece) for _, piece in pieces(stream))


def pieces(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield where each piece of a stream begins, and the piece: a secret is whole in one of them.

    A file of a layer can have several GB.
    """
    overlap = max(map(len, searched()), default=1) - 1
    end, piece = 0, b""
    while more := stream.read(_PIECE):
        piece = piece[max(0, len(piece) - overlap) :] + more
        end += len(more)
        yield end - len(piece), piece


def spans(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each secret that is searched for begins and ends in bytes."""
    for secret in searched():
        start = content.find(secret)
        while start >= 0:
            yield start, start + len(secret)
            start = content.find(secret, start + len(secret))


def url_secrets(text: str) -> Iterator[str]:
    """Yield the passwords and tokens of the URLs in a text."""
    for match in _USER.finditer(text):
        if secret := _secret_of(match[1]):
            yield secret
            if _is_word(secret):
                # With its user name, the word is not common.
                yield f"{match[1]}@"
    yield from _query_secrets(text)


def _query_secrets(text: str) -> Iterator[str]:
    """Yield the values of the fields of queries whose names say that they are secret."""
    at = 0
    while field := _FIELD.search(text, at):
        at = field.end()
        if _OF_SECRET.search(field[1]) and (value := _VALUE.match(text, at)):
            yield value[1]
            at = value.end()


def _is_word(secret: str) -> bool:
    return len(secret) < _TOKEN and secret.isalpha()


def has_password(text: str) -> bool:
    """Return whether a URL in a text has a password or a token before its host."""
    return any(_secret_of(match[1]) for match in _USER.finditer(text))


def is_secret(name: str, value: str) -> bool:
    """Return whether a value is a token, a password or a key: by its form, or by its name's."""
    named = _SECRET_NAME.fullmatch(name) and _SECRET_VALUE.fullmatch(value)
    phrase = _PHRASE_NAME.fullmatch(name) and _PHRASE.fullmatch(value)
    return bool(named or phrase or _SECRET_SHAPE.search(value))


def names_secret(name: str) -> bool:
    """Return whether a variable of a name holds a token, a password or a key."""
    return bool(_SECRET_NAME.fullmatch(name))


def is_secret_file(name: str) -> bool:
    """Return whether other programs keep passwords, tokens or private keys in files of a name."""
    return bool(_SECRET_FILE.fullmatch(name))


def shell_secrets(text: str) -> Iterator[str]:
    """Yield the tokens, passwords and keys that stand in the text of a shell."""
    for name, *values in _ASSIGNED.findall(text):
        yield from (each for each in values if is_secret(name, each))
    for option, value in _OPTION.findall(text):
        if is_secret(option.replace("-", "_"), value):
            yield value
    yield from tokens(text)


def holds_secret(name: str, content: bytes) -> bool:
    """Return whether a file is a secret or holds one, by its name or by the form of its content."""
    text = content.decode("latin-1")
    if is_secret_file(name) or next(tokens(text), ""):
        return True
    return name.endswith((".sh", ".env")) and bool(next(shell_secrets(text), ""))


def tokens(text: str) -> Iterator[str]:
    """Yield the tokens in a text that are known by their form."""
    yield from (match[0] for match in _SECRET_SHAPE.finditer(text))


def _secret_of(credentials: str) -> str:
    user, colon, password = credentials.partition(":")
    if password not in _NO_PASSWORDS:
        # A short password is hidden only together with its user name.
        return password if len(unquote(password)) >= SHORTEST else f"{user}:{password}@"
    return user if colon or len(user) >= _TOKEN else ""


def without_password(url: str) -> str:
    """Return a URL without its user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _forms(value: str | bytes) -> Iterator[bytes]:
    """Yield a secret as it is, as URLs quote it, and as base64 encodes it."""
    raw = _encoded(value) if isinstance(value, str) else value
    if len(raw) < SHORTEST:
        return
    yield raw
    if b"\n" in raw or len(raw) > _LONG_LINE:
        return
    text = raw.decode("utf-8", "surrogateescape")
    plain = unquote(text, errors="surrogateescape")
    quotes = (quote(plain, safe, errors="surrogateescape") for safe in ("", "/"))
    yield from map(_encoded, dict.fromkeys((text, plain, *quotes)))
    for secret in dict.fromkeys((raw, _encoded(plain))):
        yield from _in_base64(secret)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _in_base64(secret: bytes) -> Iterator[bytes]:
    """Yield the base64 forms, which depend on the secret's position modulo 3 in "user:password"."""
    for before in range(3):
        letters = base64.b64encode(bytes(before) + secret).rstrip(b"=")
        # The first and the last letters also encode bits of neighbouring bytes.
        start = -(-before * 8 // 6)
        end = (before + len(secret)) * 8 // 6
        if end - start > SHORTEST:
            yield letters[start:end]
            yield letters[start:end].translate(bytes.maketrans(b"+/", b"-_"))
