"""``lumicontainer check``: what is known to be wrong with an image, before it is built."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from lumicontainer.build.checks import script_syntax
from lumicontainer.commands import context
from lumicontainer.core.resolve.resolve import Resolved
from lumicontainer.core.rules.rules import ERROR, HOLDS, PASSED, UNKNOWN, WARNING, Finding, Seen
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, Problem, did_you_mean
from lumicontainer.system.units import count

ANSWERS = {True: "yes", False: "no", None: "not known"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_recipe(parser)
    parser.add_argument(
        "--explain", metavar="RULE", help="tell all of one rule, whether it holds or not"
    )
    context.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the rules that hold and those that cannot be judged; fail where an error holds."""
    resolved = context.resolved_recipe(arguments)
    script_syntax.refuse_unparsable(resolved)
    findings = context.judged(resolved, arguments)
    if arguments.explain:
        findings = [_named(arguments.explain, findings)]
    if arguments.json:
        context.print_json(_as_data(resolved, findings))
    elif arguments.explain:
        _explain(findings[0])
    else:
        _print(resolved, findings)
    failed = any(each.state == HOLDS and each.rule.level == ERROR for each in findings)
    return EXAMINED_FAILED if failed else OK


def _named(name: str, findings: Sequence[Finding]) -> Finding:
    known = {finding.rule.id: finding for finding in findings}
    if name not in known:
        raise InputError(
            Problem(f"there is no rule '{name}'", "--explain", hint=did_you_mean(name, known))
        )
    return known[name]


def _print(resolved: Resolved, findings: Sequence[Finding]) -> None:
    out = sys.stdout.write
    holding = [each for each in findings if each.state == HOLDS]
    # Errors last: that is where the eye is when the command has ended.
    for finding in sorted(holding, key=lambda each: each.rule.level, reverse=True):
        out(f"{finding.problem()}\n")
    for finding in findings:
        if finding.state == UNKNOWN:
            unknown = ", ".join(each.name for each in finding.seen if each.holds is None)
            out(f"not known: {finding.rule.message} [{finding.rule.id}]: nothing says {unknown}\n")
    errors = sum(each.rule.level == ERROR for each in holding)
    counted = [
        count(errors, ERROR),
        count(len(holding) - errors, WARNING),
        f"{sum(each.state == UNKNOWN for each in findings)} not known",
        f"{sum(each.state == PASSED for each in findings)} passed",
    ]
    name = f"{resolved.recipe.name} for {resolved.platform.name}"
    out(f"{name}: {', '.join(counted)} of {count(len(findings), 'rule')}\n")


def _explain(finding: Finding) -> None:
    out = sys.stdout.write
    rule = finding.rule
    out(f"{rule.id} ({rule.level}, {finding.state}): {rule.message}\n")
    context.print_table(
        [
            (f"when {each.name}", each.wanted, f"{ANSWERS[each.holds]}: {each}")
            for each in finding.seen
        ]
    )
    for label in ("reason", "hint", "source"):
        out(f"  {label}: {getattr(rule, label)}\n")
    out(f"  written at {rule.place}\n")


def _as_data(resolved: Resolved, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as plain data."""
    return {
        "recipe": resolved.recipe.name,
        "platform": resolved.platform.name,
        "rules": [_finding_data(finding) for finding in findings],
    }


def _seen_data(seen: Seen) -> dict[str, Any]:
    return {**seen._asdict(), "found": [fact._asdict() for fact in seen.found]}


def _finding_data(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    told = {
        key: getattr(rule, key) for key in ("id", "level", "message", "reason", "source", "hint")
    }
    return {
        **told,
        "place": str(rule.place),
        "state": finding.state,
        "when": [_seen_data(each) for each in finding.seen],
    }
