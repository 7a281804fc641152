"""Write findings as SARIF 2.1.0, which code hosts and editors read."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lumicontainer import __version__
from lumicontainer.jobs.lint.rules import LintFinding, rules

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Sequence[LintFinding]) -> dict[str, Any]:
    """Return a log with one run for each program that found something, ours first."""
    programs = dict.fromkeys(["lumicontainer", *(each.by for each in findings)])
    runs = [_run(name, [each for each in findings if each.by == name]) for name in programs]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": runs}


def _run(name: str, findings: Sequence[LintFinding]) -> dict[str, Any]:
    own = name == "lumicontainer"
    rows = [_rule(each) for each in rules()] if own else [{"id": each} for each in _ids(findings)]
    driver = {"name": name, "rules": rows, **({"version": __version__} if own else {})}
    results = [_result(each) for each in findings]
    return {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}


def _ids(findings: Sequence[LintFinding]) -> Sequence[str]:
    return list(dict.fromkeys(each.rule for each in findings))


def _rule(name: str) -> dict[str, Any]:
    rule = rules()[name]
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.what},
        "fullDescription": {"text": f"{rule.why} ({rule.source})"},
        "help": {"text": rule.hint},
        "defaultConfiguration": {"level": rule.level},
    }


def _result(finding: LintFinding) -> dict[str, Any]:
    problem = finding.problem
    parts = (problem.what, problem.why, problem.hint and f"Hint: {problem.hint}")
    region = {
        "startLine": finding.place.line,
        "startColumn": finding.place.column,
        "endLine": finding.end.line,
        "endColumn": finding.end.column,
    }
    location = {"artifactLocation": {"uri": quote(finding.place.file)}, "region": region}
    return {
        "ruleId": finding.rule,
        "level": problem.level,
        "message": {"text": "\n".join(filter(None, parts))},
        "locations": [{"physicalLocation": location}],
    }
