"""``lumicontainer import``: write a recipe and a layer of another tool's file."""

import argparse
import shlex
import sys
from pathlib import Path

from lumicontainer.api import importing
from lumicontainer.api.importing import Imported, ImportRequest
from lumicontainer.commands import context
from lumicontainer.core.catalog import LAYERS
from lumicontainer.core.rules.rules import HOLDS
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.system.files.recipe_folder import display
from lumicontainer.system.terminal.output import report, say
from lumicontainer.system.terminal.printing import print_text


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
    context.print_result(imported, arguments)
    sys.stdout.flush()
    judgment = imported.judge()
    for finding in judgment.findings:
        if finding.state == HOLDS:
            report(finding.problem())
    _say_written(imported)
    if not arguments.json:
        print_text(imported.list_missing())
        sys.stdout.flush()
    _say_next(imported, request.platform)
    return EXAMINED_FAILED if judgment.failed or not imported.complete else OK


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
