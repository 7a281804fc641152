"""Judge the variables that layers set by the table of those that do harm on a platform."""

from collections.abc import Iterator, Mapping

from lumicontainer.core.model import Discouraged, Platform
from lumicontainer.core.rules import conditions
from lumicontainer.core.rules.conditions import ENVIRONMENT, Condition, Fact, Facts
from lumicontainer.core.rules.rules import HOLDS, WARNING, FactMatch, Finding, Rule
from lumicontainer.core.yaml.readers import Text
from lumicontainer.errors import Place
from lumicontainer.inside.environment import ANY
from lumicontainer.inside.rank.variables import is_meant

_VERSIONS = ("rocm", "pytorch", "libfabric", "slingshot")
"""The conditions of a row that an image decides; nodes and devices are known when a rank starts."""
_PLUGIN = "rccl-plugin"


def judge_discouraged(
    platform: Platform, variables: Mapping[str, Fact], facts: Facts
) -> Iterator[Finding]:
    """Yield what holds for the variables of an image; the conditions of its jobs may hold."""
    for row in platform.discouraged:
        fact = variables.get(row.name)
        meaning = {key: value for key, value in row._asdict().items() if value}
        if fact and is_meant(meaning, fact.value) and _may_hold(row, facts):
            yield _finding(row, platform, fact)


def _may_hold(row: Discouraged, facts: Facts) -> bool:
    parsed = conditions_of_image(row)
    return all(conditions.is_met(key, terms, facts) is not False for key, terms in parsed)


def conditions_of_image(row: Discouraged) -> list[tuple[str, list[Condition]]]:
    """Return the conditions of a row that an image decides, by the names of its facts."""
    limits_of = {name: row.when[name] for name in _VERSIONS if name in row.when}
    name, _, limits = row.when.get("plugin", "").partition(" ")
    if name:
        limits_of[_PLUGIN] = limits or conditions.ANY
    if name not in ("", ANY):
        limits_of[f"{_PLUGIN}.plugin"] = name
    return [(key, [conditions.parse(text, (), free=True)]) for key, text in limits_of.items()]


def _finding(row: Discouraged, platform: Platform, fact: Fact) -> Finding:
    name = ENVIRONMENT + row.name
    any_value = Condition(conditions.ANY)
    place = row.name.place if isinstance(row.name, Text) else Place("")
    rule = Rule(
        f"discouraged-{row.name}",
        WARNING,
        {name: (any_value,)},
        f"the image sets {row.name}, to a value that is discouraged on {platform.name}",
        row.reason,
        row.source,
        f"take {row.name} out of 'environment'",
        place,
    )
    return Finding(rule, HOLDS, (FactMatch(name, any_value.text, (fact,), True),))
