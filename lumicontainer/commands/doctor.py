"""``lumicontainer doctor``: report what this host can do, and what is missing."""

import argparse

from lumicontainer.building.doctor import diagnose
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.system.terminal.output import print_folded, print_json

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
        print_folded(f"{MARKS[finding.state]} ", f"{finding.what}: {finding.seen}")
        if finding.hint:
            print_folded("    hint: ", finding.hint)
    return EXAMINED_FAILED if any(f.state == "missing" for f in findings) else OK
