"""``lumicontainer inspect``: what an image tells of itself, read without starting it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from lumicontainer.commands import context
from lumicontainer.core.shell import shell_value
from lumicontainer.errors import OK, ExaminedError, InputError, Problem
from lumicontainer.image import digests, integrity, records, sif
from lumicontainer.system.terminal.output import line, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("image", metavar="IMAGE", type=Path)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--recipe", action="store_true", help="print the recipe it was built from")
    what.add_argument("--definition", action="store_true", help="print its definition")
    what.add_argument("--packages", action="store_true", help="print the installed packages")
    what.add_argument(
        "--check", action="store_true", help="prove that every byte is as the build wrote it"
    )
    context.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what the image holds."""
    image = arguments.image
    sif.read_objects(image)
    if arguments.check:
        _check(image, as_json=arguments.json)
    elif arguments.recipe:
        _print_text("recipe", records.recipe(image), as_json=arguments.json)
    elif arguments.definition:
        _print_text("definition", _definition(image), as_json=arguments.json)
    elif arguments.packages:
        _print_packages(records.packages(image), as_json=arguments.json)
    else:
        _print_summary(image, as_json=arguments.json)
    return OK


def _check(image: Path, *, as_json: bool) -> None:
    """Print what of an image is proven; raise ``ExaminedError`` where it is not as written."""
    found = integrity.examined(image)
    if as_json:
        parts = [part._asdict() for part in found.parts]
        keys = ("name", "offset", "size")
        appended = [{key: getattr(part, key) for key in keys} for part in found.appended]
        told = {"state": found.state, "problems": found.problems, "proven": found.proven}
        context.print_json({"image": str(image), **told, "parts": parts, "appended": appended})
    if found.state != digests.WHOLE:
        raise ExaminedError(integrity.problem(image, found))
    if not as_json:
        sys.stdout.write(f"{image.name}: whole: {integrity.summary(found)}\n")


def _definition(image: Path) -> str:
    found = records.metadata(image).definition
    if found is None:
        raise InputError(
            Problem(
                "the image has no definition",
                str(image),
                why="it was made from none, as by a conversion",
                hint="singularity inspect tells what the engine knows of it",
            )
        )
    return found


def _print_text(what: str, text: str, *, as_json: bool) -> None:
    if as_json:
        context.print_json({what: text})
    else:
        write_document(text)


def _print_packages(packages: Mapping[str, Mapping[str, str]], *, as_json: bool) -> None:
    if as_json:
        context.print_json(packages)
        return
    for kind, versions in packages.items():
        sys.stdout.write(f"{kind}\n")
        context.print_table(sorted(versions.items()))


def _print_summary(image: Path, *, as_json: bool) -> None:
    data = records.resolved(image)
    if as_json:
        context.print_json({**data, "key": records.key(image), "bytes": image.stat().st_size})
        return
    out = sys.stdout.write
    platform = data["platform"]
    out(f"{data['recipe']}: {data['summary']}\n")
    out(f"platform {platform['name']}, accelerator {platform['accelerator']}\n")
    if "profile" in data:
        out(f"profile {data['profile']}\n")
    for bind in data.get("binds", ()):
        out(f"  bind {bind['path']}\n")
    for library in data.get("host_libraries", ()):
        out(f"  library of the host {library['path']}\n")
    out(f"{image.stat().st_size / 1e6:.0f} MB, key {records.key(image)[:12]}\n")
    for name, layer in data["layers"].items():
        out(f"  {name} {layer['version'] or ''}".rstrip() + "\n")
        for parameter, value in layer["parameters"].items():
            out(f"    {parameter} = {line(shell_value(value))}\n")
    for name, reason in data["omitted"].items():
        out(f"  left out: {name}: {reason}\n")
