"""``lumicontainer import``: write a recipe and a layer of another tool's file."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.api import importing
from lumicontainer.api.importing import Imported, ImportRequest
from lumicontainer.commands import context
from lumicontainer.core.catalog import LAYERS
from lumicontainer.core.rules.rules import HOLDS
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.importing.draft import OUTCOMES, SHOWN, ImportedLine, short
from lumicontainer.system.files.recipe_folder import display
from lumicontainer.system.terminal.output import columns, print_table, report, say

_GAPS = 6
"""Blanks before and between the first three columns."""
_LEAST = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a Dockerfile, a definition, requirements.txt, pyproject.toml, a lock, "
        "or an environment of conda or cotainr",
    )
    summary = "the build context of a Dockerfile; default: the folder that has the files it copies"
    parser.add_argument("--context", metavar="DIR", type=Path, help=summary)
    parser.add_argument("--name", metavar="NAME", help="the name of the recipe and of its layer")
    parser.add_argument("--output", metavar="DIR", type=Path, help="their folder; default: ./NAME")
    context.add_options(parser, "--platform", "--json")


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and report what became of each line."""
    request = context.request_of(ImportRequest, arguments)
    imported = importing.import_file(request)
    if imported.context.detected:
        folder = display(imported.context.folder)
        say(f"context: {folder}, which has the files that {request.file.name} copies")
    context.print_result(imported, arguments, _print_rows)
    sys.stdout.flush()
    judgment = imported.judge()
    for finding in judgment.findings:
        if finding.state == HOLDS:
            report(finding.problem())
    _say_written(imported)
    if not arguments.json:
        _print_missing(imported)
    _say_next(imported, request.platform)
    return EXAMINED_FAILED if judgment.failed or not imported.complete else OK


def _print_rows(imported: Imported) -> None:
    rows, file = imported.lines, imported.context.shown
    table = [(_place(row, file), row.outcome, short(row.text), row.note) for row in rows]
    if table:
        print_table(_fit(table))
    counts = Counter(row.outcome for row in rows)
    parts = (f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
    sys.stdout.write(f"{file}: {', '.join(parts)}\n")


def _fit(rows: Sequence[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str]]:
    """Return rows whose texts leave the terminal's width to nothing but the note below."""
    before = sum(max(len(row[column]) for row in rows) for column in (0, 1)) + _GAPS
    room = max(_LEAST, columns(before + SHOWN) - before)
    texts = (row[2] if len(row[2]) <= room else f"{row[2][: room - 1]}…" for row in rows)
    return [(*row[:2], text, row[3]) for row, text in zip(rows, texts, strict=True)]


def _place(row: ImportedLine, file: str) -> str:
    return str(row.line) if row.file == file else f"{row.file}:{row.line}"


def _print_missing(imported: Imported) -> None:
    """Print what the image will not have, as the last lines of the report."""
    file, left_out = imported.context.shown, imported.left_out
    if left_out:
        sys.stdout.write(f"left out on {imported.platform}:\n")
        print_table([(f"  {layer}", why) for layer, why in left_out.items()])
    if missing := imported.missing:
        sys.stdout.write("the image will not have:\n")
        places = (_place(each, file) for each in missing)
        rows = zip(
            missing, (f"line {each}" if each.isdigit() else each for each in places), strict=True
        )
        print_table([(f"  {each.missing}", place, each.note) for each, place in rows])
    sys.stdout.flush()


def _say_written(imported: Imported) -> None:
    has_layer = (imported.recipe.parent / LAYERS / imported.name).is_dir()
    layer = f", with its layer in {LAYERS}/{imported.name}" if has_layer else ""
    say(f"written: {shlex.quote(display(imported.recipe))}{layer}")


def _say_next(imported: Imported, platform: str | None) -> None:
    more = f" --platform {platform}" if platform else ""
    words = shlex.quote(display(imported.recipe))
    if imported.missing:
        say(
            f"next step: add these to the layer or do without, and delete their lines under "
            f"'missing' in {words}; then\n  lumicontainer build {words}{more}"
        )
    else:
        say(f"next step:\n  lumicontainer build {words}{more}")
