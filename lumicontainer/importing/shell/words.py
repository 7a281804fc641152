"""Turn a command into an argument vector as a shell would, without running any of it.

Programs that only start another one (``sudo``, ``env``, ``nice``, ``conda run``) are taken off, and
so are redirections, ``|| true`` and a pipe into ``tee``. The program is called by its plain name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from lumicontainer.importing.shell.options import is_wrapper, words_behind
from lumicontainer.importing.shell.split import expand_variables

_PART = re.compile(
    r"""(?P<blank>(?:\s|\\\n)+)
    | (?P<operator>\|\||&&|\|&?|[;()`]|&>>?|\d*(?:<<<|<<-?|<>|<&|>>|>\||>&|<|>)|&)
    | '(?P<single>[^']*)' | "(?P<double>(?:\\.|[^"\\])*)" | \\(?P<escaped>.)
    | (?P<plain>(?:[^\s\\'"<>|&;()`$]|\$\{[^{}]*\}|\$(?![('"]))+) | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_REDIRECTION = re.compile(r"&?\d*[<>]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
QUIET = {"true", ":", "echo", "printf", "exit", "false", "return"}
"""Programs behind ``||`` that install nothing."""
_FILTERS = {"tee", "cat", "head", "tail", "grep", "sort", "sed"}
_ANSWERS = {"yes", "echo", "printf"}
_SHELLS = {"sh", "bash", "dash", "su", "runuser"}
_MODULES = {"pip", "uv", "conda", "mamba", "pipx", "poetry"}
"""Programs that ``python -m`` runs."""
_PLAIN = re.compile(r"pip[\d.]*|python[\d.]*|uvx?|conda|mamba|micromamba|apt-get|apt|poetry|pixi")
"""Programs that any path may lead to, such as one in the home folder."""


class Token(NamedTuple):
    """Hold a word, or an operator such as ``>``."""

    text: str
    operator: bool = False
    glued: bool = False
    """Whether no blank stands before it."""


class Command(NamedTuple):
    """Hold the words of a command, and the files that it writes its output to."""

    words: tuple[str, ...]
    """The program by its plain name, and what stands behind it."""
    outputs: tuple[str, ...] = ()
    assigned: Mapping[str, str] = {}
    """The variables that are set before it, or by it if it has no words."""

    def program(self) -> str:
        """Return the plain name of what runs; empty if nothing does."""
        return self.words[0] if self.words else ""

    def settings(self) -> dict[str, str]:
        """Return the variables that it sets for later commands, to values which are known."""
        if not self.words:
            return dict(self.assigned)
        if self.program() != "export":
            return {}
        pairs = (word.partition("=") for word in self.words[1:])
        return {name: value for name, equals, value in pairs if equals and name.isidentifier()}

    def script(self) -> str | None:
        """Return the text that ``bash -c "text"`` runs; None for other commands."""
        if self.program() not in _SHELLS:
            return None
        for number, word in enumerate(self.words[1:-1], 1):
            if re.fullmatch(r"-[a-z]*c[a-z]*|--command", word):
                return self.words[number + 1]
        return None


def simple_command(text: str, values: Mapping[str, str]) -> Command | None:
    """Return the command that a text runs; None if it is more than one, or not wholly known."""
    try:
        tokens = [*_repaired(_tokens(text, values))]
    except _UnknownError:
        return None
    first, *others = _parts(tokens, "||")
    if any(not part or part[0].text not in QUIET for part in others):
        return None
    stages = [_plain(part) for part in _parts(first, "|", "|&")]
    known = [stage for stage in stages if stage is not None]
    if len(known) < len(stages):
        return None
    if len(known) > 1:
        known = known[known[0].program() in _ANSWERS :]
        while len(known) > 1 and known[-1].program() in _FILTERS:
            known.pop()
    return known[0] if len(known) == 1 else None


class _UnknownError(Exception):
    """A text has a word that only a shell can know."""


def _tokens(text: str, values: Mapping[str, str]) -> Iterator[Token]:
    """Yield the words and operators of a command; raise if a word is not known."""
    word: str | None = None
    glued = blank = True
    for part in [*_PART.finditer(text), None]:
        kind = part.lastgroup if part else "blank"
        value = part[kind or 0] if part else ""
        if kind in ("blank", "operator"):
            if word is not None:
                yield Token(word, glued=glued)
            if kind == "operator":
                yield Token(value, operator=True, glued=not blank)
            word, blank = None, kind == "blank"
            continue
        if kind == "other":
            raise _UnknownError
        if kind == "plain" and word is None and value.startswith("#"):
            return
        for each in _fields(kind or "", value, values):
            if each is None:
                yield Token(word or "", glued=glued)
                word, blank = None, True
            else:
                glued = glued if word is not None else not blank
                word, blank = (word or "") + each, False


def _fields(kind: str, value: str, values: Mapping[str, str]) -> Iterator[str | None]:
    """Yield the texts of a part of a word; None stands between two words."""
    if kind == "single":
        yield value
    elif kind == "escaped":
        yield "" if value == "\n" else value
    elif kind == "double":
        if "`" in value:
            raise _UnknownError
        known = _expand(re.sub(r"\\\$", "\0", value), values)
        yield re.sub(r"\\([\\\"`\n])", lambda match: match[1].strip("\n"), known).replace("\0", "$")
    else:
        known = _expand(value, values)
        if "$" not in value:
            yield known
        else:
            for number, each in enumerate(re.split(r"(?<=\S)\s+(?=\S)", known.strip())):
                yield from [None] * bool(number)
                yield from [each] * bool(each)


def _expand(text: str, values: Mapping[str, str]) -> str:
    known = expand_variables(text, values)
    if "$" in known:
        raise _UnknownError
    return known


def _repaired(tokens: Iterator[Token]) -> Iterator[Token]:
    """Yield the tokens; ``numpy>=2`` without quotes, which is a redirection, as one word."""
    row = [*tokens]
    at = 0
    while at < len(row):
        token, at = row[at], at + 1
        while (
            not token.operator
            and at + 1 < len(row)
            and row[at] in (Token("<", True, True), Token(">", True, True))
            and row[at + 1].glued
            and re.match(r"=?\d", row[at + 1].text)
        ):
            token = token._replace(text=f"{token.text}{row[at].text}{row[at + 1].text}")
            at += 2
        yield token


def _parts(tokens: Sequence[Token], *separators: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.operator and token.text in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _plain(tokens: Sequence[Token]) -> Command | None:
    """Return a command without its redirections; None if it has other operators."""
    words: list[str] = []
    outputs: list[str] = []
    row = iter(tokens)
    for token in row:
        if not token.operator:
            words.append(token.text)
        elif not _REDIRECTION.match(token.text) or "<<" in token.text:
            return None
        elif ">" in token.text:
            outputs += [each.text for each in [next(row, None)] if each]
        else:
            next(row, None)
    files = (each for each in outputs if not each.startswith(("/dev/", "&")) and not each.isdigit())
    return _unwrapped(words, tuple(files))


def _unwrapped(words: list[str], outputs: tuple[str, ...]) -> Command | None:
    """Return a command without the programs that only start it; None if their options are new."""
    assigned: dict[str, str] = {}
    while words:
        while words and _ASSIGNMENT.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            assigned[name] = value
        words = _named(words)
        size = next((size for size in (2, 1) if is_wrapper(" ".join(words[:size]))), 0)
        behind = words_behind(" ".join(words[:size]), words[size:]) if size else []
        if behind is None:
            return None
        if not size or not behind:
            break
        words = behind
    return Command(tuple(words), outputs, assigned)


def _named(words: list[str]) -> list[str]:
    """Return the words with the program's plain name: ``pip`` for ``/usr/bin/python3 -m pip``."""
    if not words:
        return words
    last = PurePosixPath(words[0]).name
    name = last if words[0].startswith("/") or _PLAIN.fullmatch(last) else words[0]
    if re.fullmatch(r"python[\d.]*", name):
        words = [each for word in words for each in re.split(r"(?<=^-m)(?=\w)", word)]
        flags = next((n for n, word in enumerate(words[1:], 1) if word[:1] != "-"), len(words))
        if words[flags - 1] == "-m" and words[flags : flags + 1] and words[flags] in _MODULES:
            return _named(words[flags:])
    if re.fullmatch(r"pip[\d.]*", name):
        name = "pip"
    return [name, *words[1:]]
