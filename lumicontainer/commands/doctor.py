"""``lumicontainer doctor``: report what this host can do, and what is missing."""

import argparse
import sys

from lumicontainer.build.doctor import diagnose
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.system.terminal.output import print_json

MARKS = {"ok": "✓", "missing": "✗", "note": "·"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each finding; fail if something that a build requires is missing."""
    findings = diagnose()
    if arguments.json:
        print_json([finding._asdict() for finding in findings])
    for finding in () if arguments.json else findings:
        sys.stdout.write(f"{MARKS[finding.state]} {finding.what}: {finding.seen}\n")
        if finding.hint:
            sys.stdout.write(f"    hint: {finding.hint}\n")
    return EXAMINED_FAILED if any(f.state == "missing" for f in findings) else OK
