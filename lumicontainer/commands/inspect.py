"""``lumicontainer inspect``: print the contents of an image without starting it."""

import argparse
import sys

from lumicontainer import api
from lumicontainer.api import Image
from lumicontainer.api.bills import require_provenance
from lumicontainer.commands import context
from lumicontainer.errors import ExaminedError
from lumicontainer.image import digests, integrity
from lumicontainer.system.terminal.output import print_json, write_document
from lumicontainer.system.terminal.printing import print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "image")
    group = parser.add_mutually_exclusive_group()
    for option, summary in (
        ("--recipe", "print the recipe of the image"),
        ("--definition", "print its definition"),
        ("--packages", "print the installed packages"),
        ("--provenance", "print where it comes from: an in-toto statement (SLSA provenance 1)"),
        ("--check", "check that every byte is as the build wrote it"),
    ):
        group.add_argument(option, action="store_true", help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> None:
    """Print a summary of the image, or the part of it that an option names."""
    image = api.inspect(arguments.image)
    if arguments.check:
        _check(image, as_json=arguments.json)
    elif arguments.recipe or arguments.definition:
        name = "recipe" if arguments.recipe else "definition"
        text = image.recipe if arguments.recipe else image.require_definition()
        if arguments.json:
            print_json({name: text})
        else:
            write_document(text)
    elif arguments.provenance:
        print_json(require_provenance(image.path).data)
    elif arguments.packages:
        if arguments.json:
            print_json(image.packages)
        else:
            print_text(image.list_packages())
    else:
        context.print_result(image, arguments)


def _check(image: Image, *, as_json: bool) -> None:
    result = image.integrity()
    if as_json:
        print_json({"image": str(image.path), **result.as_data()})
    if result.state != digests.WHOLE:
        raise ExaminedError(integrity.problem(image.path, result))
    if not as_json:
        sys.stdout.write(f"{image.path.name}: whole: {integrity.summary(result)}\n")
