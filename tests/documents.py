"""Read the code blocks of Markdown documents, so that tests run what a reader would paste.

A block names its language: ``console`` holds commands after ``$ `` with their output, ``sh`` holds
commands alone, ``text`` is never typed. Any other block is a file; its name in backticks ends the
paragraph above it. Comments right above a block say how it is tested:

    <!-- not run here: WHY -->         it is parsed, and each lumicontainer command in it must exist
    <!-- run by: TEST -->              the same, and this test runs it
    <!-- output not compared: WHY -->  it is run, and its output is only an example
    <!-- exit code: N -->              the block ends with this code; 0 where none is named
"""

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .conftest import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
COMMANDS, SHOWN = ("console", "sh"), "text"
NOT_RUN, RUN_BY, NOT_COMPARED, CODE = "not run here", "run by", "output not compared", "exit code"
_FENCE = re.compile(r"```(\S*)$")
_COMMENT = re.compile(r"<!-- ([a-z ]+): (.+) -->$")
_NAMED = re.compile(r"`([^`\s]+)`:$")
_PUNCTUATION = frozenset("();<>|&\n")
_IMAGE_VERBS = frozenset(
    ("binds", "build", "inspect", "kernel", "lock", "module", "reframe", "run", "shell", "verify")
)
_ENGINES = re.compile(r"(?m)^(?:singularity|apptainer|srun|pytest|python3 \S+\.py)\b")
_SLURM = re.compile(r"(?m)^srun ")


@dataclass(frozen=True)
class Command:
    """Hold a command as it is typed, and the lines that it prints if they are shown."""

    text: str
    printed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """Hold one fenced block, its place, and the comments above it."""

    document: Path
    line: int
    language: str
    text: str
    name: str = ""
    notes: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Return whether its commands are run as they stand."""
        return self.language in COMMANDS and not self.notes.keys() & {NOT_RUN, RUN_BY}

    @property
    def is_job(self) -> bool:
        """Return whether it is a batch script of Slurm."""
        return self.language == "bash" and "\n#SBATCH " in self.text

    @property
    def commands(self) -> list[Command]:
        """Return the commands; a backslash continues a command on the next line."""
        commands: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if commands and commands[-1][0].endswith("\\") and not commands[-1][1]:
                commands[-1] = (f"{commands[-1][0]}\n{line}", [])
            elif self.language == "sh":
                commands += [(line, [])] if line.strip() else []
            elif line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
        return [Command(text, tuple(printed)) for text, printed in commands]

    @property
    def script(self) -> str:
        """Return the commands as lines of shell."""
        return "\n".join(command.text for command in self.commands)

    @property
    def needs_engine(self) -> bool:
        """Return whether its commands build images or start containers."""
        verbs = {words[0] for words in calls(self.script) if words}
        return bool(verbs & _IMAGE_VERBS or _ENGINES.search(self.script))

    @property
    def needs_slurm(self) -> bool:
        """Return whether its commands start Slurm steps."""
        return bool(_SLURM.search(self.script))


def blocks(document: Path) -> list[Block]:
    """Return the fenced blocks of a document."""
    code_blocks: list[Block] = []
    notes: dict[str, str] = {}
    name = ""
    lines = iter(enumerate(document.read_text().splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            inside = itertools.takewhile(lambda each: each[1] != "```", lines)
            text = "".join(f"{each}\n" for _, each in inside)
            name = "" if fence[1] in COMMANDS else name
            code_blocks.append(Block(document, number, fence[1], text, name, notes))
            notes, name = {}, ""
        elif comment := _COMMENT.match(line):
            notes = {**notes, comment[1]: comment[2]}
        elif line.strip():
            named = _NAMED.search(line)
            notes, name = {}, named[1] if named else ""
    return code_blocks


def calls(text: str, program: str = "lumicontainer") -> Iterator[list[str]]:
    """Yield the words behind each call of a program in a command of shell, also in ``$(…)``."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    words: list[str] | None = None
    for token in [*lexer, ";"]:
        if set(token) <= _PUNCTUATION:
            if words is not None:
                # In `2>&1` the number is not a word of the command.
                yield words[:-1] if token[0] in "<>" and words[-1:] == ["2"] else words
            words = None
        elif words is not None:
            words.append(token)
        elif token == program:
            words = []
        elif "$(" in token:
            yield from calls(token.partition("$(")[2].rpartition(")")[0], program)


BLOCKS = {document: blocks(document) for document in DOCUMENTS}
RUN = [document for document in DOCUMENTS if any(block.is_run for block in BLOCKS[document])]
WITH_ENGINE = [
    document
    for document in RUN
    if any(block.is_run and block.needs_engine for block in BLOCKS[document])
]
WITHOUT_ENGINE = [document for document in RUN if document not in WITH_ENGINE]
"""Documents that a test of the command line can run: their commands only read and print."""
