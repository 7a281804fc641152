"""``lumicontainer extend``: put more Python packages on an image, as one file next to it."""

import argparse
import os
import shlex
import sys
from pathlib import Path

from lumicontainer.api import extending
from lumicontainer.api.extending import Extended, ExtendRequest
from lumicontainer.commands import context
from lumicontainer.image.build_date import read_build_date
from lumicontainer.system import units
from lumicontainer.system.terminal.output import say
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "image")
    summary = "a requirement, a wheel or a folder: einops, 'timm>=1.0', ./mine"
    parser.add_argument("packages", metavar="PACKAGE", nargs="*", help=summary)
    summary = "requirements.txt, pyproject.toml, pylock.toml or environment.yml; can be repeated"
    add, more = parser.add_argument, context.REPEATED
    add("-r", "--requirement", dest="requirements", metavar="FILE", type=Path, help=summary, **more)
    summary = "a folder of your own code, whose changes take effect at once; can be repeated"
    add("--editable", metavar="DIR", type=Path, help=summary, **more)
    summary = "allow this package of the image to be replaced; can be repeated"
    add("--allow-change", metavar="NAME", help=summary, **more)
    group = parser.add_mutually_exclusive_group(required=True)
    summary = "the file to write, such as mine.sqsh; run --with mounts it"
    group.add_argument("-o", "--output", metavar="FILE", type=Path, help=summary)
    summary = "write a new image, with the packages as a layer, instead of a file next to it"
    group.add_argument("--into", metavar="FILE", type=Path, help=summary)
    context.add_options(parser, "--progress", "--json")


def run(arguments: argparse.Namespace) -> None:
    """Write the file and its lock, unless they are what the same call wrote before."""
    request = context.request_of(
        ExtendRequest,
        arguments,
        output=arguments.output or arguments.into,
        into=bool(arguments.into),
        build_date=read_build_date(os.environ) if arguments.into else "",
        command=f"lumicontainer {shlex.join(sys.argv[1:])}",
    )
    extended = extending.extend(request, Progress(arguments.progress))
    _say_added(request, extended)
    context.print_result(extended, arguments)


def _say_added(request: ExtendRequest, extended: Extended) -> None:
    output, added = extended
    if added is None:
        say(f"{output.name} is up to date")
    else:
        for name, version in sorted(added.items()):
            say(f"+ {name}=={version}")
        count = units.count(len(added), "package")
        say(f"{output.name}: {count} added, {units.size(output.stat().st_size)}")
        words = ["--with", request.output, request.image]
        start = shlex.join(map(str, [request.output] if request.into else words))
        say(f"use it: lumicontainer run {start} -- COMMAND")
