"""Check a recipe against the rules before it is built."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.building.checks import script_syntax
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.rules.rules import ERROR, HOLDS, TEXTS, Finding
from lumicontainer.errors import InputError, Problem, did_you_mean


@dataclass(frozen=True)
class CheckRequest(RecipeRequest):
    """Say which recipe is judged, and by which rule if not by all."""

    explain: str = ""
    """The name of one rule."""


class Judgment(NamedTuple):
    """Hold what each rule found in a recipe."""

    resolved: Resolved
    findings: Sequence[Finding]

    @property
    def failed(self) -> bool:
        """Return whether an error applies."""
        return any(each.state == HOLDS and each.rule.level == ERROR for each in self.findings)

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer check --json`` prints it."""
        head = {"recipe": self.resolved.recipe.name, "platform": self.resolved.platform.name}
        return {**head, "rules": [_finding_data(each) for each in self.findings]}


def _finding_data(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    seen = [
        {
            "name": each.name,
            "wanted": each.condition,
            "found": [fact._asdict() for fact in each.facts],
            "holds": each.holds,
        }
        for each in finding.seen
    ]
    return {
        **{name: getattr(rule, name) for name in ("id", *TEXTS)},
        "place": str(rule.place),
        "state": finding.state,
        "when": seen,
    }


def check(request: CheckRequest) -> Judgment:
    """Compare a recipe with the rules; raise ``InputError`` if it cannot be read."""
    return judge_recipe(request.resolve(), request.explain)


def judge_recipe(resolved: Resolved, rule: str = "") -> Judgment:
    """Compare a resolved recipe with all rules, or with one."""
    script_syntax.refuse_unparsable(resolved)
    known = {finding.rule.id: finding for finding in resolved.findings}
    if rule and rule not in known:
        hint = did_you_mean(rule, known)
        raise InputError(Problem(f"rule '{rule}' not found", "--explain", hint=hint))
    return Judgment(resolved, [known[rule]] if rule else resolved.findings)
