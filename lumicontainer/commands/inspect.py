"""``lumicontainer inspect``: print the contents of an image without starting it."""

import argparse
import sys
from collections.abc import Mapping

from lumicontainer import api
from lumicontainer.api import Image
from lumicontainer.api.bills import require_provenance
from lumicontainer.commands import context
from lumicontainer.core.shell import shell_value
from lumicontainer.errors import ExaminedError, InputError, Problem
from lumicontainer.image import digests, integrity
from lumicontainer.system.terminal.output import (
    line,
    print_folded,
    print_json,
    print_table,
    write_document,
)


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
        text = image.recipe if arguments.recipe else _definition(image)
        if arguments.json:
            print_json({name: text})
        else:
            write_document(text)
    elif arguments.provenance:
        print_json(require_provenance(image.path).data)
    elif arguments.packages:
        _print_packages(image.packages, as_json=arguments.json)
    else:
        context.print_result(image, arguments, _print_summary)


def _check(image: Image, *, as_json: bool) -> None:
    result = image.integrity()
    if as_json:
        print_json({"image": str(image.path), **result.as_data()})
    if result.state != digests.WHOLE:
        raise ExaminedError(integrity.problem(image.path, result))
    if not as_json:
        sys.stdout.write(f"{image.path.name}: whole: {integrity.summary(result)}\n")


def _definition(image: Image) -> str:
    if image.definition is None:
        why = "it was not built from a definition; it may have been converted"
        hint = "singularity inspect prints what the engine recorded"
        raise InputError(Problem("the image has no definition", str(image.path), why, hint))
    return image.definition


def _print_packages(packages: Mapping[str, Mapping[str, str]], *, as_json: bool) -> None:
    if as_json:
        print_json(packages)
        return
    for kind, versions in packages.items():
        sys.stdout.write(f"{kind}\n")
        print_table(sorted(versions.items()))


def _print_summary(image: Image) -> None:
    out, data = sys.stdout.write, image.record
    platform = data["platform"]
    out(f"{data['recipe']}: {data['summary']}\n")
    out(f"platform {platform['name']}, accelerator {platform['accelerator']}\n")
    if "profile" in data:
        out(f"profile {data['profile']}\n")
    for label, key in (("bind", "binds"), ("library of the host", "host_libraries")):
        for each in data.get(key, ()):
            out(f"  {label} {each['path']}\n")
    size = image.path.stat().st_size / 1e6
    out(f"{size:.0f} MB, key {image.key[:12]}, written {image.written}\n")
    if image.build_date:
        out(f"build date {line(image.build_date)}\n")
    for name, layer in data["layers"].items():
        out(f"  {name} {layer['version'] or ''}".rstrip() + "\n")
        for parameter, value in layer["parameters"].items():
            out(f"    {parameter} = {line(shell_value(value))}\n")
    for name, reason in data["omitted"].items():
        print_folded("  left out: ", f"{name}: {reason}")
