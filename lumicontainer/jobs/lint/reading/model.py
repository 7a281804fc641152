"""A batch script as the linter sees it: directives, variables and commands, each with its place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

UNKNOWN = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands in a word for the part that only the job knows."""
FILLER = b"\x1a"
"""Stands in a text for each byte of what another shell expands before."""
HOME = "~"
"""Stands for the home folder, however it is written."""


class Span(NamedTuple):
    """Hold a part of a file, in bytes."""

    start: int
    end: int


class Word(NamedTuple):
    """Hold a word of a command: its text as far as it is known, and its place."""

    text: str
    span: Span
    raw: str = ""
    """The source of the word."""
    names: frozenset[str] = frozenset()
    """The variables that the word expands."""
    many: bool = False
    """Whether it may be any number of words, such as ``"${list[@]}"``."""

    @property
    def is_known(self) -> bool:
        """Return whether all of it is known."""
        return UNKNOWN not in self.text


class OptionUse(NamedTuple):
    """Hold an option, by its long name, with its value; a flag has none."""

    name: str
    value: Word | None
    span: Span
    """The option with its value."""

    @property
    def text(self) -> str:
        """Return the known value; empty if it is not known."""
        return self.value.text if self.value and self.value.is_known else ""

    @property
    def number(self) -> int | None:
        """Return the value as a number; None if it is not one."""
        return int(self.text) if self.text.isdecimal() and len(self.text) < 10 else None


@dataclass(frozen=True)
class Context:
    """Hold where a piece of the script stands."""

    start: "Start | None" = None
    """The command that runs it: ``srun … bash -c '…'``; None in the batch script itself."""
    conditional: bool = False
    """Whether it may run never, or several times."""
    optional: bool = False
    """Whether a condition decides if it runs, as in scripts for several machines."""
    subshell: bool = False
    """Whether its variables are lost after it."""
    background: bool = False
    editable: bool = True
    """Whether its bytes stand in the file as bash reads them."""
    captured: bool = False
    """Whether the script takes its output for a value."""
    piped: bool = False
    """Whether another command of a pipe reads its output."""

    @property
    def in_step(self) -> bool:
        """Return whether each task of a step runs it."""
        return bool(self.start and self.start.srun)

    @property
    def in_container(self) -> bool:
        """Return whether it runs in an image."""
        return bool(self.start and self.start.engine)


class Assignment(NamedTuple):
    """Hold an assignment of a variable."""

    name: str
    value: Word
    name_span: Span
    span: Span
    exported: bool
    context: Context
    lines: Span | None = None
    """The whole lines of the statement if it does nothing else."""


class ScriptCommand(NamedTuple):
    """Hold a simple command."""

    words: tuple[Word, ...]
    span: Span
    context: Context
    settings: tuple[Assignment, ...] = ()
    """Variables for this command alone."""
    raw: str = ""

    @property
    def name(self) -> str:
        """Return the last part of the program's path."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""


class StartedProgram(NamedTuple):
    """Hold one of the programs that a command starts in turn, such as ``srun`` with its options."""

    kind: str
    word: Word
    options: tuple[OptionUse, ...]
    complete: bool
    """Whether all its options are known."""
    script: Word | None = None
    """Of a shell: the text that it runs."""

    def option(self, *names: str) -> OptionUse | None:
        """Return the last option of these names."""
        return next((each for each in reversed(self.options) if each.name in names), None)

    def lacks(self, *names: str) -> bool:
        """Return whether it certainly has none of the options."""
        return self.complete and self.option(*names) is None

    @property
    def end(self) -> int:
        """Return the place behind its name, where an option can be put."""
        return self.word.span.end


SRUN, ENGINE, LAUNCHER, ENTRY, SHELL = "srun", "engine", "launcher", "lumi-entry", "shell"


class Start(NamedTuple):
    """Hold how a command starts its program: by srun, in an image, by a launcher, in any order."""

    command: ScriptCommand
    parts: tuple[StartedProgram, ...]
    image: Word | None
    program: tuple[Word, ...]
    """The program itself with its words."""

    def part(self, kind: str) -> StartedProgram | None:
        """Return the part of a kind, also of the command that this one runs in."""
        own = next((each for each in self.parts if each.kind == kind), None)
        outer = self.command.context.start
        return own or (outer.part(kind) if outer else None)

    @property
    def srun(self) -> StartedProgram | None:
        """Return srun with its options."""
        return self.part(SRUN)

    @property
    def engine(self) -> StartedProgram | None:
        """Return the container's engine with its options."""
        return self.part(ENGINE)

    @property
    def launcher(self) -> StartedProgram | None:
        """Return the launcher of ranks with its options."""
        return self.part(LAUNCHER)

    @property
    def entry(self) -> StartedProgram | None:
        """Return lumi-entry with its options."""
        return self.part(ENTRY)


class Statement(NamedTuple):
    """Hold a statement of the batch script's outermost level."""

    raw: str
    span: Span
    starts: tuple[Start, ...]
    background: bool
    names: tuple[str, ...]
    """The programs that it calls, in order."""


@dataclass
class Directives:
    """Hold what sbatch reads of a script, and what it ignores or refuses."""

    options: list[OptionUse] = field(default_factory=list)
    late: list[Span] = field(default_factory=list)
    """Lines behind the first command, which sbatch ignores."""
    strays: list[Word] = field(default_factory=list)
    """Words that are neither options nor their values."""
    unmatched: list[Span] = field(default_factory=list)
    """Lines with a quote that does not end."""
    end: int = 0
    """The place of the first command."""


@dataclass(frozen=True)
class Script:
    """Hold a batch script."""

    file: str
    data: bytes
    sbatch: Directives
    """Its ``#SBATCH`` lines."""
    settings: Sequence[Assignment] = ()
    starts: Sequence[Start] = ()
    statements: Sequence[Statement] = ()
    expansions: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """The names that the batch script itself expands, with their places."""
    ignores: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """The rules that a comment switches off, by line."""
    is_understood: bool = True
    """Whether the grammar covers all of it."""

    @property
    def directives(self) -> Sequence[OptionUse]:
        """Return the options for sbatch."""
        return self.sbatch.options

    def text(self, span: Span) -> str:
        """Return the source of a part."""
        return self.data[span.start : span.end].decode(errors="replace")

    def exports(self, *names: str) -> Iterator[Assignment]:
        """Yield the variables of these names that programs see."""
        yield from (each for each in self.settings if each.exported and each.name in names)

    def calls(self, *names: str) -> Iterator[ScriptCommand]:
        """Yield the commands of the batch script with one of these names."""
        commands = (each.command for each in self.starts)
        yield from (each for each in commands if each.name in names and not each.context.start)

    @property
    def is_closed(self) -> bool:
        """Return whether all that sets variables stands in the script."""
        return not any(self.calls("source", ".", "eval", "module", "ml"))
