"""``lumicontainer check``: check a recipe against the rules before it is built."""

import argparse
import sys

from lumicontainer.api import checking
from lumicontainer.api.checking import CheckRequest, Judgment
from lumicontainer.commands import context
from lumicontainer.core.rules.rules import ERROR, HOLDS, PASSED, UNKNOWN, WARNING
from lumicontainer.errors import EXAMINED_FAILED, OK, Problem
from lumicontainer.system.terminal.output import print_table
from lumicontainer.system.units import count

ANSWERS = {True: "yes", False: "no", None: "not known"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    summary = "print all about one rule, and whether it applies here"
    parser.add_argument("--explain", metavar="RULE", help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print the rules that apply and those that are not known; fail if an error applies."""
    judgment = checking.check(context.request_of(CheckRequest, arguments))
    context.print_result(judgment, arguments, _print_rule if arguments.explain else _print)
    return EXAMINED_FAILED if judgment.failed else OK


def _print(judgment: Judgment) -> None:
    resolved, findings = judgment
    out = sys.stdout.write
    holding = [each for each in findings if each.state == HOLDS]
    for each in resolved.recipe.missing:
        what = f"build refuses this draft: the image would lack {each}"
        out(f"{Problem(what, str(each.place), level='warning')}\n")
    # Errors last, next to the prompt.
    for finding in sorted(holding, key=lambda each: each.rule.level, reverse=True):
        out(f"{finding.problem()}\n")
    for finding in findings:
        if finding.state == UNKNOWN:
            unknown = ", ".join(each.name for each in finding.seen if each.holds is None)
            rule = finding.rule
            out(f"not known: {rule.message} [{rule.id}]: no value of {unknown}\n")
    errors = sum(each.rule.level == ERROR for each in holding)
    counted = [
        count(errors, ERROR),
        count(len(holding) - errors + len(resolved.recipe.missing), WARNING),
        f"{sum(each.state == UNKNOWN for each in findings)} not known",
        f"{sum(each.state == PASSED for each in findings)} passed",
    ]
    name = f"{resolved.recipe.name} for {resolved.platform.name}"
    out(f"{name}: {', '.join(counted)} of {count(len(findings), 'rule')}\n")


def _print_rule(judgment: Judgment) -> None:
    out = sys.stdout.write
    finding = judgment.findings[0]
    rule = finding.rule
    out(f"{rule.id} ({rule.level}, {finding.state}): {rule.message}\n")
    rows = [
        (f"when {each.name}", each.condition, f"{ANSWERS[each.holds]}: {each}")
        for each in finding.seen
    ]
    print_table(rows)
    for label in ("reason", "hint", "source", "place"):
        out(f"  {label}: {getattr(rule, label)}\n")
