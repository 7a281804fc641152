"""Split shell text into commands, without running or expanding any of it."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

_TOKEN = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`|(?<!\S)\#[^\n]*"""
    r"""|\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|<<<|&&|;;|[;\n(){}]"""
    r"""|<<(?P<tabs>-?)[ \t]*(?P<quote>["']?)\\?(?P<word>[^\s|&;<>()"'`\\]+)(?P=quote)""",
    re.DOTALL,
)
_DEPTH = {"(": 1, "{": 1, ")": -1, "}": -1}
_SEPARATORS = ("&&", ";;", ";", "\n")
_BEGIN = re.compile(r"(?:(?:do|then|else|elif|!|time)\s+)*(?:if|for|while|until|case|select)\b")
_END = re.compile(r"(?:fi|done|esac)\b")
_TEST = re.compile(r"(?:\[|test\b|!)")
_SKIPPED = re.compile(r"(?:\s|\\\n|#[^\n]*(?:\n|\Z))*+")
_SPECIAL = set("|&<>`(){}\n")
_VARIABLE = re.compile(
    r"\$(?:\{(?P<name>\w+)(?:(?P<mark>:?[-+])(?P<other>(?:[^{}]|\$\{[^{}]*\})*))?\}|(?P<bare>\w+))"
)
OTHER_EXPANSION = re.compile(r"\$\{(?!\w+\})")
"""Begins an expansion that is more than the value of a variable."""
MAX_TEXT = 1 << 16
"""Characters of a line, of a command, and of a text with the values of its variables."""
TOO_LONG = f"with the values of its variables it has more than {MAX_TEXT >> 10} KiB"


def other_program(script: str) -> str:
    """Return why a script is not shell text, by its line with ``#!``; empty if it may be."""
    program = script.partition("\n")[0].removeprefix("#!").strip()
    names = [PurePosixPath(word).name for word in program.split() if word != "-S"]
    name = "".join(names[names[:1] == ["env"] :][:1])
    if not script.startswith("#!") or name in ("sh", "bash", "dash"):
        return ""
    return f"it is a script of '{program}', not of a shell"


class ShellCommand(NamedTuple):
    """Hold one command of a script."""

    text: str
    offset: int
    """The lines before it."""
    compound: bool
    """Whether it is more than words: a pipe, a loop, a redirection, a heredoc."""


def split(text: str) -> Iterator[ShellCommand]:
    """Yield the commands between ``&&``, ``;`` and newlines, with the lines before each.

    A loop, a condition, a list with ``||``, a function or a command with its heredoc is one.
    """
    start = first = depth = 0
    inner: list[int] = []
    lines = _LineNumbers(text)
    for end, width in [*_ends(text), (len(text), 0)]:
        bare = text[start:end].replace("\\\n", "  ").lstrip()
        begins, ends = _BEGIN.match(bare), _END.match(bare)
        depth = max(0, depth + bool(begins) - bool(ends))
        start = end + width
        if text.startswith("&&", end):
            inner += [] if depth else [end]
        elif not depth or end == len(text):
            for each in _list(text, first, end, inner):
                yield from _command(text, *each, lines)
            first, inner = start, []


class _LineNumbers:
    """Count the lines before places of a text that are asked for in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._count = 0

    def before(self, place: int) -> int:
        self._count += self._text.count("\n", self._at, place)
        self._at = place
        return self._count


def _list(text: str, start: int, end: int, inner: list[int]) -> Iterator[tuple[int, int]]:
    """Yield where the commands of a list begin and end: at ``inner`` unless it is one."""
    plain = _unquoted(text[start:end])
    if "||" in _without_brackets(plain) or _TEST.match(plain):
        inner = []
    for last in (*inner, end):
        yield start, last
        start = last + len("&&")


def _without_brackets(text: str) -> str:
    """Return a text without what is in ``( )``; with all of it if some bracket is left open."""
    parts = re.split(r"([()])", text)
    depth, kept = 0, list[str]()
    for part in parts:
        depth += {"(": 1, ")": -1}.get(part, 0)
        kept += [part] if depth == 0 else []
        if depth < 0:
            return text
    return text if depth else "".join(kept)


def _command(text: str, start: int, end: int, lines: _LineNumbers) -> Iterator[ShellCommand]:
    # Its own comments stand before it.
    skipped = _SKIPPED.match(text, start, end)
    start = skipped.end() if skipped else start
    bare = text[start : _end_of_words(text, start, end)]
    if bare:
        compound = bool(_BEGIN.match(bare)) or bool(_SPECIAL & set(_unquoted(bare)))
        yield ShellCommand(bare, lines.before(start), compound)


def _end_of_words(text: str, start: int, end: int) -> int:
    """Return where the blanks and continued lines at the end of a command begin."""
    while end > start and (text[end - 1].isspace() or text.endswith("\\\n", start, end)):
        end -= 1 if text[end - 1] != "\n" or text[end - 2 : end - 1] != "\\" else 2
    return end


def _ends(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a command ends, and how many characters separate it from the next one."""
    at = depth = 0
    words: list[tuple[str, str]] = []
    while match := _TOKEN.search(text, at):
        mark, at = match[0], match.end()
        if match["word"]:
            words.append((match["tabs"] and r"\t*", match["word"]))
        elif mark in _DEPTH:
            depth = max(0, depth + _DEPTH[mark])
        elif mark == "\n" and words:
            at = _after_heredocs(text, match.start(), words)
            words = []
        # The body of a heredoc stands behind the whole line.
        elif mark in _SEPARATORS and not depth and not words:
            yield match.start(), len(mark)


def end_of_group(text: str) -> int:
    """Return where a text's first bracket closes; 0 if that is not certain.

    Brackets in the body of a heredoc are not the shell's.
    """
    at = depth = 0
    while match := _TOKEN.search(text, at):
        mark, at = match[0], match.end()
        depth += _DEPTH.get(mark, 0)
        if match["word"] or depth <= 0:
            return 0 if match["word"] else at
    return 0


def _after_heredocs(text: str, at: int, words: Sequence[tuple[str, str]]) -> int:
    """Return where the line ends that ends the last of the heredocs that begin behind ``at``."""
    for tabs, word in words:
        match = re.compile(rf"^{tabs}{re.escape(word)}$", re.MULTILINE).search(text, at)
        at = match.end() if match else len(text)
    return at


def _unquoted(text: str) -> str:
    """Return a text without what is quoted; a command in it stays visible by its ``(``."""
    bare = re.sub(r"\$\{\w+\}", "", re.sub(r"'[^']*'", "", without_silence(text)))
    bare = re.sub(r'"((?:\\.|[^"\\])*)"', lambda match: "(" if "$(" in match[1] else "", bare)
    return re.sub(r"\\.", "", bare).strip()


def without_silence(text: str) -> str:
    """Return a command on one line, without what sends its output to /dev/null."""
    plain = text.replace("\\\n", " ")
    end = _end_of_words(plain, 0, len(plain))
    while (start := _silence(plain, end)) < end:
        end = _end_of_words(plain, 0, start)
    return plain[:end]


def _silence(text: str, end: int) -> int:
    """Return where a redirection to nowhere begins that ends at ``end``; else ``end``."""
    if text.endswith("2>&1", 0, end):
        return end - len("2>&1")
    if not text.endswith("/dev/null", 0, end):
        return end
    arrow = _end_of_words(text, 0, end - len("/dev/null"))
    if not text.endswith(">", 0, arrow):
        return end
    return arrow - 1 - text.endswith(("1", "2", "&"), 0, arrow - 1)


def empty_variables(text: str, values: Mapping[str, str]) -> list[str]:
    """Return the variables without a value that stand in a command for some of its words."""
    bare = re.sub(r"'[^']*'|(?<!\S)-\S+", "", text)
    names = (first or second for first, second in re.findall(r"\$(?:\{(\w+)\}|(\w+))", bare))
    return [name for name in dict.fromkeys(names) if values.get(name) == ""]


def command_words(text: str, values: Mapping[str, str]) -> list[str] | None:
    """Return the words of a simple command; None if it has a variable that is not known."""
    expanded = expand_variables(without_silence(text), values)
    if "$" in re.sub(r"'[^']*'", "", expanded):
        return None
    try:
        return shlex.split(expanded, comments=True)
    except ValueError:
        return None


def expand_variables(text: str, values: Mapping[str, str]) -> str:
    """Put in the values of known variables; ``${NAME:-other}`` of an unknown one is its other.

    ``${NAME:+other}`` of an unknown one stays, as it may have a value that is not known.
    Raises ``ValueError`` if the result would have more than ``MAX_TEXT`` characters.
    """
    room = MAX_TEXT

    def value(match: re.Match[str]) -> str:
        nonlocal room
        known, mark = values.get(match["name"] or match["bare"]), match["mark"] or ""
        if mark.endswith("+") if known else mark.endswith("-"):
            result = expand_variables(match["other"], values)
        elif known is None:
            result = match[0]
        else:
            result = "" if "+" in mark else known
        room -= len(result)
        if room < 0:
            raise ValueError(TOO_LONG)
        return result

    return _VARIABLE.sub(value, text)
