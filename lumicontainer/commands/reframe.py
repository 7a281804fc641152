"""``lumicontainer reframe``: write a ReFrame test class that runs the checks of an image."""

import argparse
from pathlib import Path

from lumicontainer.api import starting
from lumicontainer.api.starting import ImageRequest
from lumicontainer.commands import context
from lumicontainer.inside.verify import report
from lumicontainer.system.terminal import output
from lumicontainer.verify.subject import output_errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "the file to write; default: stdout"
    parser.add_argument("--output", "-o", metavar="FILE", type=Path, help=summary)
    context.add_options(parser, *context.IMAGE)


def run(arguments: argparse.Namespace) -> None:
    """Write the test class."""
    text = starting.reframe_test(context.request_of(ImageRequest, arguments), output.report)
    if arguments.output:
        file = str(arguments.output)
        with output_errors(file):
            report.write(file, text.encode())
    else:
        output.write_document(text)
