"""``lumicontainer extend``: put more Python packages on an image, as one file beside it."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.building import pipeline
from lumicontainer.commands import context
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import OK, InputError, Problem
from lumicontainer.extending import extension, into
from lumicontainer.extending.extension import Order
from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.image import sif
from lumicontainer.system import units
from lumicontainer.system.files.partial import require_folder_of
from lumicontainer.system.terminal.masking import masked
from lumicontainer.system.terminal.output import say, write_document
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "image")
    summary = "a package, with its version: einops, 'timm>=1.0'"
    parser.add_argument("packages", metavar="PACKAGE", nargs="*", help=summary)
    summary = "requirements.txt, pyproject.toml, pylock.toml or environment.yml; can be repeated"
    add, more = parser.add_argument, context.REPEATED
    add("-r", "--requirement", metavar="FILE", type=Path, help=summary, **more)
    summary = "a folder of your own code; changes of it need no new file; can be repeated"
    add("--editable", metavar="DIR", type=Path, help=summary, **more)
    summary = "let a package of the image be replaced; can be repeated"
    add("--allow-change", metavar="NAME", help=summary, **more)
    group = parser.add_mutually_exclusive_group(required=True)
    summary = "the file to write, such as mine.sqsh; run --with mounts it"
    group.add_argument("-o", "--output", metavar="FILE", type=Path, help=summary)
    summary = "write a new image, with the packages as a layer, instead of a file next to it"
    group.add_argument("--into", metavar="FILE", type=Path, help=summary)
    context.add_options(parser, "--progress")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and its lock, unless they are what the same call wrote before."""
    image, output = arguments.image, (arguments.output or arguments.into).absolute()
    sif.read_objects(image)
    require_folder_of(output, "output")
    if {"pip", "conda", "uv"} & {*arguments.packages[:1]} and "install" in arguments.packages:
        hint = f"write the packages alone: lumicontainer extend {image} PACKAGE -o {output.name}"
        raise InputError(Problem("expected packages, got a command", hint=hint))
    additions = read_additions(arguments.packages, arguments.requirement, arguments.editable)
    command = masked(f"lumicontainer {shlex.join(sys.argv[1:])}")
    order = Order(image, additions, frozenset(map(normal, arguments.allow_change)), command)
    if arguments.into:
        pipeline.check_output(output)
        into.check_image(order)
    else:
        _check_output(output, arguments.requirement)
    extension.remove_leftovers_of(output)
    kind = into if arguments.into else extension
    if kind.is_current(order, output):
        say(f"{output.name} is up to date")
    else:
        with Progress(arguments.progress) as progress:
            record = kind.make(order, output, progress)
        for name, version in sorted(record.packages.items()):
            say(f"+ {name}=={version}")
        count = units.count(len(record.packages), "package")
        say(f"{output.name}: {count} added, {units.size(output.stat().st_size)}")
        start = output.name if arguments.into else f"--with {output.name} {image.name}"
        say(f"use it: lumicontainer run {start} -- COMMAND")
    write_document(f"{output}\n")
    return OK


def _check_output(output: Path, inputs: Sequence[Path]) -> None:
    if output.suffix == ".sif":
        hint = f"name it {output.with_suffix('.sqsh').name}, or write --into {output.name}"
        raise InputError(Problem("an extension is not an image", str(output), hint=hint))
    extension.check_output(output, inputs)
