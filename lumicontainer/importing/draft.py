"""Collect what a recipe and its layer will hold, and what became of each line of the file."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.yaml import validators
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.readers import Reader
from lumicontainer.errors import InputError, Place, Problem, Problems
from lumicontainer.importing.replacements import replacement_for
from lumicontainer.importing.shell.split import MAX_TEXT
from lumicontainer.system.files.recipe_folder import read_text
from lumicontainer.system.terminal import masking
from lumicontainer.system.units import count

T = TypeVar("T")

CARRIED, REPLACED, NOT_NEEDED, NOT_CARRIED = OUTCOMES = (
    *("carried", "replaced", "not needed", "not carried"),
)
SHOWN = 60
"""The characters of a line that reports show."""

MAX_COMMANDS = 2000
"""The instructions of a file, and the commands of its shell text."""
MAX_ROWS = 10_000
MAX_PATH = 4096
"""PATH_MAX of Linux."""
MAX_SECRETS = 100
"""The passwords in URLs of a file: each is looked for in every line that is printed."""

_SOURCE: Mapping[str, Reader[Any]] = {
    "git": validators.https_url,
    "url": validators.https_url,
    "folder": validators.file,
    "file": validators.file,
}


class ImportedLine(NamedTuple):
    """Hold what became of a line, or of a part of it."""

    file: str
    line: int
    text: str
    outcome: str
    """One of ``OUTCOMES``."""
    note: str = ""
    layer: str = ""
    """The layer that takes its place."""
    missing: str = ""
    """The part that the image lacks, in a few words; empty if nothing is missing, or if an earlier
    line says it."""


class Goal(NamedTuple):
    """Hold what the platform decides."""

    accelerator: str
    base: str
    """The base in words, such as ``debian bookworm``."""
    python: str
    """The version of the base's Python."""


@dataclass
class Counts:
    """Count what was read for a draft so far."""

    commands: int = 0
    """The commands of its shell text."""
    files: int = 0
    bytes: int = 0
    """The copied files, each as often as a line copies it."""


@dataclass
class Draft:
    """Hold the parts of a recipe and of its layer, as they are found."""

    folder: Path
    goal: Goal
    name: str
    roots: dict[str, Path] = field(default_factory=dict)
    """The folders of files that lie elsewhere, by their names in reports."""
    lines: list[ImportedLine] = field(default_factory=list)
    layers: set[str] = field(default_factory=set)
    apt: dict[str, None] = field(default_factory=dict)
    python: dict[str, None] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    prepend: dict[str, list[str]] = field(default_factory=dict)
    """Folders before those that a variable of the image has."""
    parameters: dict[str, str] = field(default_factory=dict)
    files: dict[str, LayerFile] = field(default_factory=dict)
    script: list[str] = field(default_factory=list)
    to_pin: list[Mapping[str, str]] = field(default_factory=list)
    """Sources whose commit or sha256 the user fills in."""
    read: dict[str, str] = field(default_factory=dict)
    """The files that lines named, each with why it could not be read."""
    counts: Counts = field(default_factory=Counts)
    installed: list[ImportedLine] = field(default_factory=list)
    """The lines of packages that commands install by pip, uv and conda."""
    indexes: list[ImportedLine] = field(default_factory=list)
    """The lines of variables by which pip and uv choose an index."""

    def is_layer(self) -> bool:
        """Return whether anything was found for a new layer."""
        return any((self.apt, self.python, self.environment, self.path, self.prepend, self.script))

    def has_file(self, name: str) -> bool:
        """Return whether the imported folder has a file; a name may be too long for one."""
        with contextlib.suppress(OSError):
            return (self.folder / name).is_file()
        return False

    def has_folder(self, name: str) -> bool:
        """Return whether the imported folder has a folder; it may itself be named by a link."""
        path = self.folder / name
        with contextlib.suppress(OSError):
            return path.is_dir() and not (name and path.is_symlink())
        return False

    def missing(self) -> list[ImportedLine]:
        """Return the first line for each thing that the image does not have."""
        named = {line.missing: line for line in reversed(self.lines) if line.missing}
        return [*reversed(named.values())]


class FileLine(NamedTuple):
    """Name a line of a file, or a part of it, and add to a draft what becomes of it."""

    draft: Draft
    file: str
    number: int
    text: str = ""

    def part(self, text: str) -> "FileLine":
        """Return a part of the line."""
        return self._replace(text=text)

    def note(self, outcome: str, why: str = "", layer: str = "") -> None:
        """Add what became of the line."""
        self._add(outcome, why, layer, "")

    def _add(self, outcome: str, why: str, layer: str, missing: str) -> None:
        row = ImportedLine(self.file, self.number, self.text, outcome, why, layer, missing)
        self.draft.lines.append(row)
        if len(self.draft.lines) > MAX_ROWS:
            raise too_large(self.file, MAX_ROWS, "part")

    def start(self, command: str, lost: str = "") -> None:
        """Add that ``lumicontainer run`` takes the place of a line that starts a command.

        ``lost`` is what the command needs and the image does not have.
        """
        if lost:
            self.refuse(f"it starts {lost}, which is not there", f"{lost}, which the file starts")
        elif command:
            self.note(REPLACED, f"lumicontainer run {self.draft.name}.sif -- {command}")
        else:
            self.note(NOT_NEEDED, "it starts nothing")

    def refuse(self, why: str, missing: str | None = None) -> None:
        """Add that the line is not carried over, and why.

        ``missing`` is what the image does not have for it, the line itself by default.
        """
        self._add(NOT_CARRIED, why, "", short(self.text) if missing is None else missing)

    def replace(self, layer: str, why: str = "") -> None:
        """Add that a layer takes the place of the line."""
        self.draft.layers.add(layer)
        self.note(REPLACED, why, layer)

    def replace_image(self, image: str) -> None:
        """Add what takes the place of a base image: the platform's base, and layers."""
        name = re.split(r"@|:(?=[^/]*$)", image)[0]
        name = re.sub(r"^([\w-]+(\.[\w-]+)+|[\w.-]+:\d+)/", "", name).removeprefix("library/")
        goal = self.draft.goal
        row, base = replacement_for("images", name, goal.accelerator), f"the base is {goal.base}"
        if "layers" in row:
            self.draft.layers.update(row["layers"])
            self.note(REPLACED, base, next(iter(row["layers"]), ""))
            if lacks := row.get("lacks"):
                why = "name those that you use under packages.python, or as layers"
                self.part(lacks).refuse(why, f"{lacks} of {image}")
        else:
            why = row.get("refuse", "unknown base image; add what you need of it to the layer")
            self.refuse(f"{why}; {base}", row.get("missing", f"what the base image {image} has"))

    def refuse_files(self, stage: str, path: str) -> None:
        """Add that files of another stage are not carried over, or which layer has them."""
        if not self.decided("stage_files", path):
            why = f"'{stage}' does not become the image; install it, or name a source"
            self.refuse(why, f"{path} of {stage}")

    def refuse_source(self, source: Mapping[str, str]) -> None:
        """Add that a download is not carried over, and the source that would pin it."""
        if any(fault(reader, source[key]) for key, reader in _SOURCE.items() if key in source):
            self.refuse("it downloads what nothing pins")
            return
        if source not in self.draft.to_pin:
            self.draft.to_pin.append(source)
        why = "pin it as a source: see 'sources' at the end of layer.yaml"
        self.refuse(why, source.get("git", source.get("url")))

    def decided(self, kind: str, name: str, more: str = "") -> bool:
        """Add what the table of replacements says of a name; return False if it says nothing."""
        row: Mapping[str, Any] = replacement_for(kind, name, self.draft.goal.accelerator)
        if "layer" in row:
            self.replace(row["layer"], row.get("why", more))
        elif "drop" in row:
            self.note(NOT_NEEDED, row["drop"])
        elif "refuse" in row:
            self.refuse(row["refuse"], row.get("missing"))
        return bool(row)


def short(text: str) -> str:
    """Return a text on one line without its secrets, shortened.

    The rest of a secret that is cut off would not be known as one.
    """
    line = re.sub(r"(\\\n|\s)+", " ", masking.masked(text)).strip()
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def read_imported(draft: Draft, name: str) -> str:
    """Return the text of an imported file, and hide the passwords of its URLs in what is printed.

    Raises ``InputError`` if it cannot be read.
    """
    root = draft.roots.get(name)
    text = read_text(root, PurePosixPath(name).name) if root else read_text(draft.folder, name)
    text = text.removeprefix("\ufeff")
    for number, line in enumerate(text.split("\n"), 1):
        place = str(Place(name, number))
        if "\0" in line:
            hint = "save the file as text in UTF-8"
            raise InputError(Problem("expected text, got a NUL character", place, hint=hint))
        if len(line) > MAX_TEXT:
            hint = "split it"
            what = f"cannot read a line of more than {MAX_TEXT >> 10} KiB"
            raise InputError(Problem(what, place, hint=hint))
    hide_passwords(name, [text])
    return text


def hide_passwords(file: str, texts: Sequence[str]) -> None:
    """Hide the passwords of the URLs in texts; raise ``InputError`` if there are too many."""
    secrets = {each for text in texts if "://" in text for each in masking.url_secrets(text)}
    if len(secrets) > MAX_SECRETS:
        raise too_large(file, MAX_SECRETS, "password")
    masking.hide_urls(texts)
    masking.hide(token for text in texts for token in masking.tokens(text))


def too_large(file: str, limit: int, kind: str) -> InputError:
    """Return the error for a file with more than ``limit`` things of a kind."""
    what = f"cannot read a file of more than {count(limit, kind)}"
    return InputError(Problem(what, file, hint="split it, or import its parts"))


def limit_entries(file: str, entries: Iterable[T], kind: str = "instruction") -> Iterator[T]:
    """Yield things of a file; raise ``InputError`` if they are too many."""
    for number, each in enumerate(entries, 1):
        if number > MAX_COMMANDS:
            raise too_large(file, MAX_COMMANDS, kind)
        yield each


def fault(reader: Reader[Any], text: str) -> str:
    """Return why a reader of layers refuses a text; empty if it accepts it."""
    problems = Problems()
    reader(Scalar(Place(""), text, plain=False), problems)
    return "; ".join(each.why or each.what for each in problems.noted)
