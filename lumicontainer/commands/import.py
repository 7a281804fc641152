"""``lumicontainer import``: write a recipe and a layer of another tool's file."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from lumicontainer.building.checks import script_syntax
from lumicontainer.commands import context
from lumicontainer.commands.new_files import check_name, write_folder
from lumicontainer.core.catalog import LAYERS, Catalog, open_catalog
from lumicontainer.core.model.layer import LAYERS as NAMED
from lumicontainer.core.model.layer import Parameter
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.core.rules.rules import ERROR, HOLDS
from lumicontainer.errors import EXAMINED_FAILED, OK
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
from lumicontainer.system.terminal.output import print_json, print_table, report, say

MODEL = "pytorch"
"""The shipped recipe whose base, profiles and order of layers a written one has."""
Use = str | Mapping[str, Mapping[str, Sequence[str]]]
"""A layer of a recipe, with its values if it has some."""
ORDERS = (MODEL, "pytorch-deepspeed", "megatron-deepspeed", "jax", "tensorflow-horovod")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a Dockerfile, a definition, requirements.txt, or an environment of conda or cotainr",
    )
    summary = (
        "the folder whose files a Dockerfile copies; default: found by the files that it names"
    )
    parser.add_argument("--context", metavar="DIR", type=Path, help=summary)
    parser.add_argument("--name", metavar="NAME", help="the name of the recipe and of its layer")
    parser.add_argument("--output", metavar="DIR", type=Path, help="their folder; default: ./NAME")
    context.add_options(parser, "--platform", "--json")


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and report what became of each line."""
    file: Path = arguments.file
    context.refuse_import(file)
    read = reader_of(file)
    name = arguments.name or name_for(file)
    check_name(name, "--name ")
    arguments.recipes = None
    catalog = context.catalog_of(arguments)
    platform = context.find_platform(arguments).name
    model = resolve(catalog.materials(MODEL, platform), [])
    draft, shown = _new_draft(file, arguments.context, _goal(model), name)
    read(draft, shown)
    folder = arguments.output or Path(name)
    recipe = _write(draft, file, folder, catalog)
    written = resolve(open_catalog(folder).materials(name, platform), [])
    rows = [_with_layer(each, written, draft.goal.python) for each in draft.lines]
    wanted = [each for each in written.layers if each.name in draft.layers]
    left_out = {each.name: each.omitted for each in wanted if each.omitted}
    if arguments.json:
        lines = [row._asdict() for row in rows]
        head = {"recipe": str(recipe), "platform": platform, "left_out": left_out}
        print_json({**head, "lines": lines})
    else:
        _print_rows(rows, shown)
    sys.stdout.flush()
    failed = _check(written)
    _say_written(recipe, name)
    if not arguments.json:
        _print_missing(draft, shown, left_out, platform)
    _say_next(recipe, arguments.platform, unfinished=bool(draft.missing()))
    return EXAMINED_FAILED if failed or any(r.outcome == NOT_CARRIED for r in rows) else OK


def _new_draft(file: Path, named: Path | None, goal: Goal, name: str) -> tuple[Draft, str]:
    """Return an empty draft, and the name that the imported file has in reports."""
    context = context_for(file, named)
    if context == file.parent:
        return Draft(context, goal, name), file.name
    if not named:
        say(f"context: {display(context)}, which has the files that {file.name} copies")
    whole, folder = file.resolve(), context.resolve()
    shown = str(whole.relative_to(folder)) if whole.is_relative_to(folder) else display(file)
    return Draft(context, goal, name, {shown: file.parent}), shown


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


def _layers(wanted: set[str], catalog: Catalog) -> Iterator[Use]:
    """Yield the layers of a recipe in order: what is wanted, with all that this needs."""
    stack = [use.layer for use in catalog.recipe(MODEL).layers]
    needed = {"python", *wanted}
    named: dict[str, dict[str, list[str]]] = {}
    for found in map(catalog.layer, wanted):
        named[found.name] = _named(found.parameters, wanted)
        needed.update(found.requires, *named[found.name].values())
    # Whatever uses GPUs or MPI has below it what the shipped images have.
    if needed & {*stack} - {"python"}:
        needed |= {*stack} - {MODEL}
    order = [use.layer for each in ORDERS for use in catalog.recipe(each).layers]
    rows = [layer for layer in dict.fromkeys(order) if layer in needed]
    below = {layer: {*chain(*values.values())} for layer, values in named.items()}
    while rows:
        layer = next(each for each in rows if below.get(each, set()).isdisjoint(rows))
        rows.remove(layer)
        yield {layer: named[layer]} if named.get(layer) else layer


def _named(parameters: Iterable[Parameter], wanted: set[str]) -> dict[str, list[str]]:
    """Return the parameters of a layer that name layers: those that are wanted, or the default."""
    return {
        each.name: [name for name in each.choices if name in wanted] or str(each.default).split()
        for each in parameters
        if each.type == NAMED
    }


def _check(written: Resolved) -> bool:
    """Report what ``lumicontainer check`` finds in what was written; return whether it fails."""
    script_syntax.refuse_unparsable(written)
    findings = [each for each in written.findings if each.state == HOLDS]
    for finding in findings:
        report(finding.problem())
    return any(each.rule.level == ERROR for each in findings)


def _with_layer(row: ImportedLine, written: Resolved, python: str) -> ImportedLine:
    """Return a line with the version of the layer that takes its place in its note."""
    found = next((each for each in written.layers if each.name == row.layer), None)
    if found is None:
        return row
    version = python if row.layer == "python" else found.values().get("version", "")
    name = f"layer {row.layer} {version}".strip()
    left_out = f" (left out: {found.omitted})" if found.omitted else ""
    return row._replace(note="; ".join(filter(None, (f"{name}{left_out}", row.note))))


def _print_rows(rows: Sequence[ImportedLine], file: str) -> None:
    table = []
    for row in rows:
        table.append((_place(row, file), row.outcome, short(row.text), row.note))
    if table:
        print_table(table)
    counts = Counter(row.outcome for row in rows)
    parts = (f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
    sys.stdout.write(f"{file}: {', '.join(parts)}\n")


def _place(row: ImportedLine, file: str) -> str:
    return str(row.line) if row.file == file else f"{row.file}:{row.line}"


def _print_missing(draft: Draft, file: str, left_out: Mapping[str, str], platform: str) -> None:
    """Print what the image will not have, as the last lines of the report."""
    if left_out:
        sys.stdout.write(f"left out on {platform}:\n")
        print_table([(f"  {layer}", why) for layer, why in left_out.items()])
    if missing := draft.missing():
        sys.stdout.write("the image will not have:\n")
        rows = [(f"  {each.missing}", f"line {_place(each, file)}", each.note) for each in missing]
        print_table(rows)
    sys.stdout.flush()


def _say_written(recipe: Path, name: str) -> None:
    there = (recipe.parent / LAYERS / name).is_dir()
    layer = f", with its layer in {LAYERS}/{name}" if there else ""
    say(f"written: {shlex.quote(display(recipe))}{layer}")


def _say_next(recipe: Path, platform: str | None, *, unfinished: bool) -> None:
    more = f" --platform {platform}" if platform else ""
    words = shlex.quote(display(recipe))
    if unfinished:
        say(
            f"next step: add these to the layer or do without, and delete their lines under "
            f"'missing' in {words}; then\n  lumicontainer build {words}{more}"
        )
    else:
        say(f"next step:\n  lumicontainer build {words}{more}")
