"""``lumicontainer reframe``: a test class with which ReFrame proves an image."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from lumicontainer.commands import context
from lumicontainer.core.render.jinja import fill
from lumicontainer.core.schema.check import LEVELS
from lumicontainer.engines import find_engine
from lumicontainer.errors import OK, InputError, Problem
from lumicontainer.host.machine import platform_of
from lumicontainer.image import sif
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.verify import report
from lumicontainer.system.terminal.output import write_document
from lumicontainer.verify import job
from lumicontainer.verify.subject import read_subject

TEMPLATE = "reframe.py.j2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument(
        "--output", "-o", metavar="FILE", type=Path, help="write it there; default: stdout"
    )
    parser.add_argument("--platform", metavar="NAME", help="default: what fits this host")
    context.add_catalog(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the test class."""
    sif.read_objects(arguments.image)
    text = written(arguments)
    if arguments.output:
        _write(str(arguments.output), text.encode())
    else:
        write_document(text)
    return OK


def _write(file: str, content: bytes) -> None:
    """Write a file whole; raise ``InputError`` where that cannot be done."""
    try:
        report.write(file, content)
    except LaunchError as error:
        raise InputError(Problem(error.what, error.where, error.why, error.hint)) from error


def written(arguments: argparse.Namespace) -> str:
    """Return the test class of an image, on a platform, as Python."""
    subject = read_subject(arguments.image)
    platform = platform_of(context.catalog_of(arguments), arguments.platform)
    engine = find_engine()
    words = engine.execute(arguments.image.absolute(), (), binds=())
    options = words[words.index("exec") + 1 : -1]
    recipe = str(subject.resolved["recipe"])
    return fill(
        TEMPLATE,
        image=words[-1],
        name="LumiVerify_" + re.sub(r"\W", "_", recipe),
        summary=f"the checks of {recipe}",
        engine=type(engine).__name__,
        options=options,
        binds=job.binds_command(arguments.image, platform, arguments.recipes),
        levels=list(LEVELS),
        checks={
            check["name"]: {
                "level": check["level"],
                "seconds": check["timeout_seconds"],
                "mpi": job.is_of_mpi(check),
            }
            for check in subject.checks
        },
        tasks=job.tasks(platform),
        cpus=job.cpus(platform),
    )
