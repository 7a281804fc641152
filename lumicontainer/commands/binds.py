"""``lumicontainer binds``: the options by which ``run`` starts an image, for job scripts."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lumicontainer.commands import context
from lumicontainer.core.model import Platform
from lumicontainer.errors import HOST_UNFIT, OK
from lumicontainer.host.binds import Needs, needs_of
from lumicontainer.host.machine import platform_of
from lumicontainer.image import sif
from lumicontainer.system.terminal.output import line, printable, report, write_document
from lumicontainer.system.user_namespaces import namespace_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument("--platform", metavar="NAME", help="default: what fits this host")
    context.add_catalog(parser)
    context.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the options of the engine as an array for bash; fail where the image cannot run."""
    sif.read_objects(arguments.image)
    platform = platform_of(context.catalog_of(arguments), arguments.platform)
    needs = needs_of(arguments.image, platform)
    for problem in needs.problems:
        report(problem)
    if arguments.json:
        context.print_json(as_data(needs, platform))
    elif needs.unfit():
        # For eval, which knows nothing of this program's exit code.
        sys.stdout.write(f"binds=()\n(exit {HOST_UNFIT})\n")
    else:
        _print(needs, platform, arguments.image)
    return HOST_UNFIT if needs.unfit() else OK


def _print(needs: Needs, platform: Platform, image: Path) -> None:
    out = write_document
    out(f"# What {_line(image.name)} needs of this host ({platform.name}):\n")
    out('# singularity exec "${binds[@]}" IMAGE COMMAND\n')
    for bind in needs.absent:
        out(f"# not on this host: {_line(bind.path)}: {_line(bind.reason)}\n")
    out("binds=(\n")
    for option in namespace_options():
        out(f"    {option}  # root has not every capability on this host\n")
    for mount in needs.mounts:
        out(f"    --bind {_word(str(mount))}  # {_line(mount.reason)}\n")
    for each in needs.variables:
        out(f"    --env {_word(f'{each.name}={each.value}')}  # {_line(each.reason)}\n")
    out(")\n")


def _line(text: str) -> str:
    """Return a text that stays within a comment, and steers no terminal."""
    return printable(" ".join(text.split()))


def _word(text: str) -> str:
    """Return a text as one word for bash, on one line, in which nothing steers a terminal."""
    if line(text) == text:
        return shlex.quote(text)
    octal = "".join(f"\\{byte:03o}" for byte in os.fsencode(text))
    return f"$'{octal}'"


def _said(row: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in row.items() if value}


def as_data(needs: Needs, platform: Platform) -> dict[str, Any]:
    """Return what an image needs as plain data.

    ``bind`` is the value for SINGULARITY_BIND, ``environment`` what the container is to be given,
    ``options`` what else the engine needs on its command line.
    """
    return {
        "platform": platform.name,
        "options": namespace_options(),
        "bind": ",".join(str(mount) for mount in needs.mounts),
        "binds": [_said(asdict(mount)) for mount in needs.mounts],
        "environment": {each.name: each.value for each in needs.variables},
        "variables": [asdict(each) for each in needs.variables],
        "absent": [{"path": bind.path, "reason": bind.reason} for bind in needs.absent],
        "problems": [problem._asdict() for problem in needs.problems],
        "works": not needs.unfit(),
    }
