"""``lumicontainer lint``: find mistakes in batch scripts, and correct them."""

import argparse
import sys
from pathlib import Path

from lumicontainer.api import linting
from lumicontainer.api.linting import LintRequest, LintResult
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.jobs.lint.sarif import sarif
from lumicontainer.system.terminal.output import print_json, say, write_document
from lumicontainer.system.units import count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add = parser.add_argument
    add("scripts", metavar="SCRIPT", type=Path, nargs="+", help="a batch script")
    add(
        "--image", metavar="IMAGE", type=Path, help="the image of the job, for rules about versions"
    )
    summary = (
        "the platform of the job; default: the image's, else this host's, else its partition's"
    )
    add("--platform", metavar="NAME", help=summary)
    context.add_options(parser, "--recipes")
    fixing = parser.add_mutually_exclusive_group()
    summary = "correct what can be corrected, and print the rest"
    fixing.add_argument("--fix", action="store_true", help=summary)
    summary = "print what --fix would change, as a patch"
    fixing.add_argument("--diff", action="store_true", help=summary)
    form = parser.add_mutually_exclusive_group()
    context.add_options(form, "--json")
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, as GitHub reads it")


def run(arguments: argparse.Namespace) -> int:
    """Print the faults of all scripts; fail if there are any."""
    request = context.request_of(LintRequest, arguments)
    if arguments.fix or arguments.diff:
        patch = linting.fix_scripts(request, write=arguments.fix)
        if arguments.diff:
            write_document(patch)
            return EXAMINED_FAILED if patch else OK
    result = linting.lint(request)
    if arguments.json:
        print_json(result.as_data())
    elif arguments.sarif:
        print_json(sarif(result.findings))
    else:
        _print(result)
    return EXAMINED_FAILED if result.findings else OK


def _print(result: LintResult) -> None:
    for finding in result.findings:
        sys.stdout.write(f"{finding}\n")
    if not result.shellcheck:
        say("ShellCheck is not installed: its findings are missing")
    fixable = sum(bool(each.edits) for each in result.findings)
    more = f"; --fix corrects {fixable}" if fixable else ""
    counted = count(len(result.findings), "finding")
    name = result.platform.name
    if result.assumed:
        say(f"{name} is assumed: no partition of a platform is named; --platform NAME says another")
    say(f"{count(result.scripts, 'script')} for {name}: {counted}{more}")
