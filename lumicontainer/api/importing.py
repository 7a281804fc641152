"""Write a recipe and a layer of another tool's file."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.api.checking import Judgment, judge_recipe
from lumicontainer.api.new_files import check_name, write_folder
from lumicontainer.core import habits
from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.core.model.layer import LAYERS as NAMED
from lumicontainer.core.model.layer import Parameter
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.recipes import find_platform
from lumicontainer.importing.draft import (
    NOT_CARRIED,
    OUTCOMES,
    Draft,
    Goal,
    ImportedLine,
    short,
)
from lumicontainer.importing.read import context_for, name_for, reader_of
from lumicontainer.importing.writing import files_of
from lumicontainer.system.files.recipe_folder import display
from lumicontainer.system.terminal.text import TextPart, TextTable

MODEL = "pytorch"
"""The shipped recipe whose base, profiles and order of layers a written one has."""
Use = str | Mapping[str, Mapping[str, Sequence[str]]]
"""A layer of a recipe, with its values if it has some."""
ORDERS = (MODEL, "pytorch-deepspeed", "megatron-deepspeed", "jax", "tensorflow-horovod")


@dataclass(frozen=True)
class ImportRequest:
    """Say which file is imported, and where its recipe is written."""

    file: Path
    context: Path | None = None
    """The folder whose files a Dockerfile copies; by default found by the files that it names."""
    name: str = ""
    """The name of the recipe and of its layer; by default made of the name of the file."""
    output: Path | None = None
    """The folder of the recipe; by default ./NAME."""
    platform: str | None = None


class ImportContext(NamedTuple):
    """Hold the folder whose files are copied, and the name of the imported file in reports."""

    folder: Path
    shown: str
    detected: bool = False
    """Whether the folder was found by the files that are copied, and is not that of the file."""


class Imported(NamedTuple):
    """Hold the recipe that was written, and what became of each line."""

    recipe: Path
    name: str
    platform: str
    context: ImportContext
    lines: Sequence[ImportedLine]
    left_out: Mapping[str, str]
    """By layer: why the platform has none."""
    missing: Sequence[ImportedLine]
    """The lines whose software the image will not have."""
    written: Resolved

    @property
    def complete(self) -> bool:
        """Return whether every line could be carried over."""
        return all(each.outcome != NOT_CARRIED for each in self.lines)

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer import --json`` prints it."""
        head = {"recipe": str(self.recipe), "platform": self.platform, "left_out": self.left_out}
        return {**head, "lines": [each._asdict() for each in self.lines]}

    def as_text(self) -> Iterator[TextPart]:
        """Yield what became of each line, and how many had each outcome."""
        rows = [(self._place(e), e.outcome, short(e.text), e.note) for e in self.lines]
        yield TextTable(rows, cut=2)
        counts = Counter(each.outcome for each in self.lines)
        parts = (f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
        yield f"{self.context.shown}: {', '.join(parts)}"

    def list_missing(self) -> Iterator[TextPart]:
        """Yield what the image will not have, as the last lines of the report."""
        if self.left_out:
            yield f"left out on {self.platform}:"
            yield TextTable([(f"  {layer}", why) for layer, why in self.left_out.items()])
        if self.missing:
            yield "the image will not have:"
            rows = ((each, self._place(each)) for each in self.missing)
            places = ((each, f"line {at}" if at.isdigit() else at) for each, at in rows)
            yield TextTable([(f"  {each.missing}", place, each.note) for each, place in places])

    def _place(self, row: ImportedLine) -> str:
        return str(row.line) if row.file == self.context.shown else f"{row.file}:{row.line}"

    def judge(self) -> Judgment:
        """Compare what was written with the rules; raise ``InputError`` for a script's syntax."""
        return judge_recipe(self.written)


def import_file(request: ImportRequest) -> Imported:
    """Write the recipe and the layer of a file.

    Raises ``InputError`` for a file that cannot be read, and for files that exist already.
    """
    file = request.file
    if hint := habits.habit_hint(habits.FILE, word := habits.typed_word(file)):
        raise InputError(Problem(f"expected a file, got '{word}'", hint=hint))
    read = reader_of(file)
    name = request.name or name_for(file)
    check_name(name, "--name ")
    catalog = open_catalog()
    platform = find_platform(catalog, request.platform).name
    context = _find_context(file, request.context)
    goal = _goal(resolve(catalog.materials(MODEL, platform), []))
    files = {} if context.folder == file.parent else {context.shown: file.parent}
    draft = Draft(context.folder, goal, name, files)
    read(draft, context.shown)
    folder = request.output or Path(name)
    recipe = _write(draft, file, folder, catalog)
    written = resolve(open_catalog(folder).materials(name, platform), [])
    lines = [_with_layer(each, written, goal.python) for each in draft.lines]
    layers = [each for each in written.layers if each.name in draft.layers]
    left_out = {each.name: each.omitted for each in layers if each.omitted}
    missing = draft.missing()
    return Imported(recipe, name, platform, context, lines, left_out, missing, written)


def _find_context(file: Path, named: Path | None) -> ImportContext:
    folder = context_for(file, named)
    if folder == file.parent:
        return ImportContext(folder, file.name)
    whole, root = file.resolve(), folder.resolve()
    shown = str(whole.relative_to(root)) if whole.is_relative_to(root) else display(file)
    return ImportContext(folder, shown, detected=not named)


def _goal(model: Resolved) -> Goal:
    base = model.layers[0]
    version = base.values().get("version", "")
    python = base.content.apt_versions.get("python", "3.11")
    return Goal(model.platform.accelerator, f"{base.name} {version}".strip(), python)


def _write(draft: Draft, file: Path, folder: Path, catalog: Catalog) -> Path:
    model = catalog.recipe(MODEL)
    layers = list(_layers(draft.layers, catalog))
    write_folder(folder, files_of(draft, file.name, layers, model.profiles, model.base.layer))
    return folder / f"{draft.name}.yaml"


def _layers(names: set[str], catalog: Catalog) -> Iterator[Use]:
    """Yield the layers of a recipe in order: what is wanted, with all that this needs."""
    stack = [use.layer for use in catalog.recipe(MODEL).layers]
    needed = {"python", *names}
    named: dict[str, dict[str, list[str]]] = {}
    for layer in map(catalog.layer, names):
        named[layer.name] = _named(layer.parameters, names)
        needed.update(layer.requires, *named[layer.name].values())
    # Whatever uses GPUs or MPI has below it what the shipped images have.
    if needed & {*stack} - {"python"}:
        needed |= {*stack} - {MODEL}
    order = [use.layer for each in ORDERS for use in catalog.recipe(each).layers]
    rows = [name for name in dict.fromkeys(order) if name in needed]
    below = {name: {*chain(*values.values())} for name, values in named.items()}
    while rows:
        name = next(each for each in rows if below.get(each, set()).isdisjoint(rows))
        rows.remove(name)
        yield {name: named[name]} if named.get(name) else name


def _named(parameters: Iterable[Parameter], layers: set[str]) -> dict[str, list[str]]:
    """Return the parameters of a layer that name layers: those that are wanted, or the default."""
    return {
        each.name: [name for name in each.choices if name in layers] or str(each.default).split()
        for each in parameters
        if each.type == NAMED
    }


def _with_layer(row: ImportedLine, written: Resolved, python: str) -> ImportedLine:
    """Return a line with the version of the layer that takes its place in its note."""
    layer = next((each for each in written.layers if each.name == row.layer), None)
    if layer is None:
        return row
    version = python if row.layer == "python" else layer.values().get("version", "")
    name = f"layer {row.layer} {version}".strip()
    left_out = f" (left out: {layer.omitted})" if layer.omitted else ""
    return row._replace(note="; ".join(filter(None, (f"{name}{left_out}", row.note))))
