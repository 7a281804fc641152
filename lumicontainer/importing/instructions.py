"""Split Dockerfiles into instructions, with their lines and heredocs."""

import bisect
import contextlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lumicontainer.errors import InputError, Place, Problem
from lumicontainer.importing.draft import limit_entries
from lumicontainer.importing.shell.split import expand_variables

_WORD = re.compile(
    r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|\S)+""", re.DOTALL
)
"""A word of a shell, with its quotes and arithmetic."""
HEREDOC = re.compile(r"""\d*<<(?P<tabs>-?)(?P<quote>["']?)(?P<escape>\\?)([^<\s"'\\]+)(?P=quote)""")
"""A word that begins a heredoc of a Dockerfile; no other form does."""
_WITHHEREDOCS = ("RUN", "COPY", "ADD", "ONBUILD")


class Heredoc(NamedTuple):
    """Hold a heredoc."""

    word: str
    quoted: bool
    tabs: bool
    """Whether tabs that begin its lines are not part of it."""
    lines: tuple[str, ...] = ()

    def content(self) -> str:
        """Return its text."""
        removed = "\t" if self.tabs else ""
        return "".join(line.lstrip(removed) + "\n" for line in self.lines)


class Instruction(NamedTuple):
    """Hold one instruction of a Dockerfile."""

    line: int
    last: int
    name: str
    text: str
    """The text after the name, with its line breaks."""
    heredocs: tuple[Heredoc, ...] = ()


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile with their lines."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    places = _Places(lines)
    at = 0
    while at < len(lines):
        first, last = at, lines[at]
        at += 1
        if not last.strip() or last.lstrip().startswith("#"):
            continue
        parts = [last]
        while last.rstrip().endswith("\\") and at < len(lines):
            # Comments between continued lines are left out.
            last = "\\" if lines[at].lstrip().startswith("#") else lines[at] or "\\"
            parts[-1] = f"{parts[-1].rstrip()[:-1]}\\\n"
            parts.append(last)
            at += 1
        name, *words = "".join(parts).split(None, 1)
        rest = "".join(words)
        heredocs = [*_heredocs(rest, at, places)] if name.upper() in _WITHHEREDOCS else []
        at += sum(len(each.lines) + 1 for each in heredocs)
        yield Instruction(first + 1, at, name.upper(), rest.strip(), tuple(heredocs))


class _Places:
    """Find the lines that have a text."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._places: dict[str, list[int]] = {}
        for number, line in enumerate(lines):
            for key in {line, "\t" + line.lstrip("\t")}:
                self._places.setdefault(key, []).append(number)

    def next(self, text: str, at: int, *, tabs: bool) -> int | None:
        """Return the first line from ``at`` on with a text, behind any number of ``tabs``."""
        places = self._places.get(f"\t{text}" if tabs else text, [])
        number = bisect.bisect_left(places, at)
        return places[number] if number < len(places) else None


def _heredocs(text: str, at: int, places: _Places) -> Iterator[Heredoc]:
    """Yield the heredocs of an instruction whose ends stand in the lines from ``at`` on."""
    for word in _WORD.findall(text.replace("\\\n", "")):
        if match := HEREDOC.fullmatch(word):
            quoted = bool(match["quote"] or match["escape"])
            begun = Heredoc(match[4], quoted, bool(match["tabs"]))
            end = places.next(begun.word, at, tabs=begun.tabs)
            if end is not None:
                yield begun._replace(lines=tuple(places.lines[at:end]))
                at = end + 1


def split_from(text: str) -> tuple[str, str]:
    """Return the image of FROM, and the name of its stage."""
    bare = re.sub(r"^(--\S+\s+)+", "", text.replace("\\\n", " "))
    base, *stage = re.split(r"\s+", bare, maxsplit=1)
    match = re.fullmatch(r"(?i)as\s+(\S+)\s*", "".join(stage))
    return base, match[1] if match else ""


def assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of ENV or ARG; without a value it is empty."""
    joined = text.replace("\\\n", " ")
    if old := re.fullmatch(r"(\w+)\s+([^=\s].*|[^\s]*\s.*)", joined, re.DOTALL):
        yield old[1], old[2].strip().strip('"')
        return
    for word in shlex.split(joined):
        name, _, value = word.partition("=")
        yield name, value


def exec_form(text: str) -> list[str]:
    """Return the words of ``["a", "b"]``; nothing for other text."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
        words = list(map(str, value)) if isinstance(value, list) else []
        # An escape may name half of a surrogate pair, which is not text.
        "".join(words).encode()
        return words
    return []


def copied(text: str) -> list[str]:
    """Return the files that a Dockerfile copies from its context."""
    commands = (each for each in instructions(text) if each.name in ("COPY", "ADD"))
    rests = (each.text.replace("\\\n", " ") for each in commands if not each.heredocs)
    words = [re.sub(r"--[\w-]+(=\S+)?\s+", "", rest) for rest in rests if "--from" not in rest]
    return [source for rest in words for source in (exec_form(rest) or rest.split())[:-1]]


class Stage(NamedTuple):
    """Hold a stage, from its FROM to the next one."""

    name: str
    base: str
    first: Instruction
    body: list[Instruction]


class Stages(NamedTuple):
    """Hold the parts of a Dockerfile."""

    before: list[Instruction]
    """The instructions before the first FROM."""
    values: dict[str, str]
    """The values of ARG among them."""
    stages: list[Stage]


def read_stages(text: str, file: str) -> Stages:
    """Return the stages of a Dockerfile; raise ``InputError`` if it has none."""
    if directive := re.match(r"(?i)(?:#.*\n)*#\s*escape\s*=\s*[^\\\s]", text):
        hint = "continue lines with a backslash, and remove the directive"
        raise InputError(Problem("cannot read another escape character", file, directive[0], hint))
    read = Stages([], {}, [])
    for each in limit_entries(file, instructions(text)):
        if each.name == "FROM":
            base, stage = split_from(each.text)
            base = _expand_base(base, read.values, each, file)
            read.stages.append(Stage(stage.lower(), base, each, []))
        elif read.stages:
            read.stages[-1].body.append(each)
        else:
            read.before.append(each)
            read.values.update(_defaults(each, file) if each.name == "ARG" else {})
    if not read.stages:
        hint = "name a Dockerfile, a definition, requirements.txt or environment.yml"
        raise InputError(Problem("expected a Dockerfile with FROM", file, hint=hint))
    return read


def _expand_base(base: str, values: Mapping[str, str], each: Instruction, file: str) -> str:
    try:
        return expand_variables(base, values)
    except ValueError as error:
        place = str(Place(file, each.line))
        raise InputError(Problem("cannot read FROM", place, str(error), "shorten it")) from error


def _defaults(each: Instruction, file: str) -> dict[str, str]:
    try:
        return dict(assignments(each.text))
    except ValueError as error:
        place = str(Place(file, each.line))
        problem = Problem("cannot read ARG", place, str(error), "close the quote, or remove it")
        raise InputError(problem) from error
