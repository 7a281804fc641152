"""``lumicontainer binds``: print the options with which ``run`` starts an image."""

import argparse
import sys

from lumicontainer.api import starting
from lumicontainer.api.starting import ImageRequest
from lumicontainer.commands import context
from lumicontainer.errors import HOST_UNFIT, OK
from lumicontainer.frontends.bash import array_of, exports_of
from lumicontainer.system.terminal.output import print_json, report, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with", "--json")
    summary = "print one line for job scripts on nodes without lumicontainer; this host is not read"
    parser.add_argument("--static", action="store_true", help=summary)


def run(arguments: argparse.Namespace) -> int:
    """Print the options of the engine as a bash array; fail if the image cannot run here."""
    request = context.request_of(ImageRequest, arguments)
    binds = starting.find_binds(request, static=arguments.static)
    needs = binds.needs
    for problem in binds.problems:
        report(problem)
    if arguments.json:
        print_json(binds.as_data())
    elif arguments.static:
        write_document(exports_of({"SINGULARITY_BIND": binds.value, **needs.exports}))
    elif needs.unfit():
        # For eval, which does not see the exit code of this program.
        sys.stdout.write(f"binds=()\n(exit {HOST_UNFIT})\n")
    else:
        platform, image = binds.platform.name, request.image.name
        write_document(array_of(needs, platform, binds.options, image))
    return HOST_UNFIT if needs.unfit() else OK
