"""Check a recipe against the rules before it is built."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.building.checks import script_syntax
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.rules.rules import (
    ERROR,
    HOLDS,
    PASSED,
    TEXTS,
    UNKNOWN,
    WARNING,
    Finding,
)
from lumicontainer.errors import InputError, Problem, did_you_mean
from lumicontainer.system.terminal.text import TextPart, TextTable
from lumicontainer.system.units import count

ANSWERS = {True: "yes", False: "no", None: "not known"}


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

    def as_text(self) -> Iterator[TextPart]:
        """Yield the rules that apply and those that are not known, and how many passed."""
        recipe = self.resolved.recipe
        holding = [each for each in self.findings if each.state == HOLDS]
        for each in recipe.missing:
            what = f"build refuses this draft: the image would lack {each}"
            yield Problem(what, str(each.place), level="warning")
        # Errors last, next to the prompt.
        for finding in sorted(holding, key=lambda each: each.rule.level, reverse=True):
            yield finding.problem()
        for finding in self.findings:
            if finding.state == UNKNOWN:
                unknown = ", ".join(each.name for each in finding.seen if each.holds is None)
                rule = finding.rule
                yield f"not known: {rule.message} [{rule.id}]: no value of {unknown}"
        errors = sum(each.rule.level == ERROR for each in holding)
        counted = [
            count(errors, ERROR),
            count(len(holding) - errors + len(recipe.missing), WARNING),
            f"{sum(each.state == UNKNOWN for each in self.findings)} not known",
            f"{sum(each.state == PASSED for each in self.findings)} passed",
        ]
        name = f"{recipe.name} for {self.resolved.platform.name}"
        yield f"{name}: {', '.join(counted)} of {count(len(self.findings), 'rule')}"


class RuleJudgment(Judgment):
    """Hold what one rule found in a recipe."""

    def as_text(self) -> Iterator[TextPart]:
        """Yield all about the rule, and whether it applies."""
        (finding,) = self.findings
        rule = finding.rule
        yield f"{rule.id} ({rule.level}, {finding.state}): {rule.message}"
        answers = [(each, f"{ANSWERS[each.holds]}: {each}") for each in finding.seen]
        yield TextTable([(f"when {each.name}", each.condition, answer) for each, answer in answers])
        for label in ("reason", "hint", "source", "place"):
            yield f"  {label}: {getattr(rule, label)}"


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
    return RuleJudgment(resolved, [known[rule]]) if rule else Judgment(resolved, resolved.findings)
