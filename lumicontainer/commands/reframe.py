"""``lumicontainer reframe``: write a ReFrame test class that runs the checks of an image."""

import argparse
import re
from pathlib import Path

from lumicontainer.commands import context
from lumicontainer.core.model.check import LEVELS
from lumicontainer.core.render.jinja import fill
from lumicontainer.engines import find_engine
from lumicontainer.errors import OK
from lumicontainer.host.binds import of_another, takes_of_host
from lumicontainer.image import sif
from lumicontainer.inside.verify import report
from lumicontainer.system.terminal import output
from lumicontainer.verify import job
from lumicontainer.verify.subject import output_errors, read_subject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "the file to write; default: stdout"
    parser.add_argument("--output", "-o", metavar="FILE", type=Path, help=summary)
    context.add_options(parser, *context.IMAGE)


def run(arguments: argparse.Namespace) -> int:
    """Write the test class."""
    sif.read_objects(arguments.image)
    text = _test_class(arguments)
    if arguments.output:
        file = str(arguments.output)
        with output_errors(file):
            report.write(file, text.encode())
    else:
        output.write_document(text)
    return OK


def _test_class(arguments: argparse.Namespace) -> str:
    subject = read_subject(arguments.image)
    platform = context.find_platform(arguments)
    for problem in of_another(arguments.image, subject.resolved, platform):
        output.report(problem)
    engine = find_engine()
    words = engine.execute(arguments.image.absolute(), (), binds=())
    binds = job.binds_command(arguments.image, platform, arguments.recipes)
    recipe = str(subject.resolved["recipe"])
    return fill(
        "reframe.py.j2",
        image=words[-1],
        name="LumiVerify_" + re.sub(r"\W", "_", recipe),
        summary=f"the checks of {recipe}",
        engine=type(engine).__name__,
        options=words[words.index("exec") + 1 : -1],
        binds=binds if takes_of_host(subject.resolved, platform) else [],
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
