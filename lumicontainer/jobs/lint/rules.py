"""Read the rules of the linter, and write their texts for a place in a script."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lumicontainer.errors import Place, Problem
from lumicontainer.jobs.lint.job import Edit, Hit
from lumicontainer.jobs.lint.reading.model import Script
from lumicontainer.system.terminal.output import line


class LintRule(NamedTuple):
    """Hold one rule; its texts have facts of the script in braces."""

    id: str
    level: str
    what: str
    why: str
    source: str
    hint: str
    fix: str = ""
    """The change that ``--fix`` makes; empty if it makes none."""


class LintFinding(NamedTuple):
    """Hold a fault of a script."""

    rule: str
    place: Place
    end: Place
    problem: Problem
    source: str
    edits: tuple[Edit, ...] = ()
    by: str = "lumicontainer"
    """The program that found it."""

    def __str__(self) -> str:
        problem = self.problem
        lines = [f"{self.place}: {problem.level} {self.rule}: {problem.what}"]
        why = f"{problem.why} ({self.source})" if self.source else problem.why
        lines += [
            f"{label:>7}: {text}" for label, text in (("why", why), ("hint", problem.hint)) if text
        ]
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        problem = self.problem
        return {
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "end_line": self.end.line,
            "end_column": self.end.column,
            "id": self.rule,
            "level": problem.level,
            "what": problem.what,
            "why": problem.why,
            "source": self.source,
            "hint": problem.hint,
            "fixable": bool(self.edits),
            "by": self.by,
        }


@functools.cache
def rule_tables() -> Mapping[str, Any]:
    """Return the tables of the rules' file."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - it is safe
    return data


@functools.cache
def rules() -> Mapping[str, LintRule]:
    """Return the rules by their ids."""
    return {row["id"]: LintRule(**row) for row in rule_tables()["rules"]}


def place_of(script: Script, offset: int) -> Place:
    """Return the line and the column of a byte; columns count characters."""
    begin = script.data.rfind(b"\n", 0, offset) + 1
    column = len(script.data[begin:offset].decode(errors="replace")) + 1
    return Place(script.file, script.data.count(b"\n", 0, offset) + 1, column)


def write_finding(script: Script, rule: LintRule, hit: Hit) -> LintFinding:
    """Return what a rule says of a place."""
    facts = {name: line(str(value)) for name, value in hit.facts.items()}
    what, why, source, hint = (
        _filled(text, facts) for text in (rule.what, rule.why, rule.source, rule.hint)
    )
    start, end = place_of(script, hit.span.start), place_of(script, hit.span.end)
    problem = Problem(what, str(start), why, hint, hit.level or rule.level)
    return LintFinding(rule.id, start, end, problem, source, hit.edits)


def _filled(text: str, facts: Mapping[str, str]) -> str:
    """Return a text with its facts; other braces, such as a shell's, stay."""
    for name, value in facts.items():
        text = text.replace("{" + name + "}", value)
    return text


def ordered(findings: Sequence[LintFinding]) -> list[LintFinding]:
    """Return findings in the order of their places."""
    return sorted(findings, key=lambda each: (each.place.line, each.place.column, each.rule))
