"""Combinations that are known to be bad: read from their file, judged by what an image has."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from lumicontainer.core.rules import conditions
from lumicontainer.core.rules.conditions import (
    DRIVER,
    PACKAGE,
    Condition,
    Fact,
    Facts,
    is_met,
    meets,
)
from lumicontainer.core.yaml import readers, validators
from lumicontainer.core.yaml.nodes import Mapping as MappingNode
from lumicontainer.core.yaml.nodes import Node, Scalar
from lumicontainer.core.yaml.nodes import Sequence as SequenceNode
from lumicontainer.core.yaml.parse import parse_yaml as parse_document
from lumicontainer.core.yaml.record import fields_of
from lumicontainer.core.yaml.validators import Line
from lumicontainer.errors import InputError, Place, Problem, Problems, did_you_mean

ERROR, WARNING = "error", "warning"
_PLACES = 2
"""The most places that are printed of one fact."""
TEXTS = ("level", "message", "reason", "source", "hint")
HOLDS, PASSED, UNKNOWN = "holds", "passed", "not known"

_package = readers.matching(r"[a-z0-9]+(-[a-z0-9]+)*", "a package's name as PEP 503 writes it")
_variable = r"[A-Za-z_*][A-Za-z0-9_*]*"
_variables = readers.matching(
    rf"{_variable}(\|{_variable})*",
    "the name of a shell variable, with * for any text, or several such names with | between",
)


def _when_schema() -> readers.Schema:
    one = readers.schema_of(validators.raw)
    some = {"oneOf": [one, {"type": "array", "items": one, "minItems": 1}]}
    return {"type": "object", "minProperties": 1, "additionalProperties": some}


@readers.with_schema(_when_schema)
def _when(node: Node, problems: Problems) -> MappingNode | None:
    if isinstance(node, MappingNode) and node.entries:
        return node
    problems.add("'when' is a mapping of facts to what they must be", node.place)
    return None


class Rule(NamedTuple):
    """Hold one combination that is known to be bad."""

    id: Annotated[
        str, readers.matching(r"[a-z0-9][a-z0-9.-]*", "a name of small letters, digits, '-', '.'")
    ]
    """The name of the rule."""
    level: Annotated[str, readers.choice((ERROR, WARNING), "level")]
    """`error` refuses the build, `warning` lets it go on."""
    when: Annotated[Mapping[str, tuple[Condition, ...]], _when]
    """Facts, which must all be so, each with a condition or a list of which one is enough. The head
    of `recipes/rules.yaml` explains both."""
    message: Line
    """The fault."""
    reason: Line
    """Why it is wrong."""
    source: Line
    """The document that says so."""
    hint: Line
    """The action that avoids it."""
    place: Place


class _Rules(NamedTuple):
    rules: tuple[Annotated[Rule, fields_of("a rule", Rule)], ...]
    """Combinations that are known to be bad. Of two rules with the same id, the one in your own
    folder is used.
    """


RULES = fields_of("the rules", _Rules)


class Vocabulary(NamedTuple):
    """Know which layers there are, and which parameters each has."""

    layers: Collection[str]
    parameters: Callable[[str], Collection[str]]


class FactMatch(NamedTuple):
    """Hold one part of a rule's ``when``: what is asked, what was found, whether it is so."""

    name: str
    condition: str
    facts: tuple[Fact, ...]
    holds: bool | None

    def __str__(self) -> str:
        if any(fact.variable for fact in self.facts):
            return "\n".join(f"{each.variable}={each.value} ({each.place})" for each in self.facts)
        nothing = "is not known" if self.holds is None else "is not there"
        values = dict.fromkeys(fact.value for fact in self.facts if fact.value)
        places = list(dict.fromkeys(fact.place for fact in self.facts if fact.place))
        shown = "; ".join(places[:_PLACES]) + ("; …" if len(places) > _PLACES else "")
        return f"{self.name} {', '.join(values) or nothing}{f' ({shown})' if shown else ''}"


class Finding(NamedTuple):
    """Hold what a rule says of an image: ``holds``, ``passed`` or ``not known``."""

    rule: Rule
    state: str
    seen: tuple[FactMatch, ...]

    def problem(self) -> Problem:
        """Return the finding as a message."""
        rule, where = self.rule, "\n".join(map(str, self.seen))
        what, why = f"{rule.message} [{rule.id}]", f"{rule.reason} ({rule.source})"
        return Problem(what, where, why, rule.hint, rule.level)


def judge(rules: Iterable[Rule], facts: Facts) -> list[Finding]:
    """Judge an image by every rule."""
    return [_judge(rule, facts) for rule in rules]


def _judge(rule: Rule, facts: Facts) -> Finding:
    seen = tuple(_match(name, terms, facts) for name, terms in rule.when.items())
    answers = {each.holds for each in seen}
    state = PASSED if False in answers else UNKNOWN if None in answers else HOLDS
    return Finding(rule, state, seen)


def of_drivers(rules: Iterable[Rule], facts: Facts) -> tuple[dict[str, Any], ...]:
    """Return the rules that an image falls under with some drivers, as plain data.

    Only a node knows its driver. ``driver`` holds the conditions that it is
    to be judged by there, of which one is enough.
    """
    return tuple(
        {
            "driver": [each.text for each in rule.when[DRIVER]],
            **{name: getattr(rule, name) for name in TEXTS},
        }
        for rule in rules
        if DRIVER in rule.when
        and all(
            _match(name, each, facts).holds for name, each in rule.when.items() if name != DRIVER
        )
    )


def _match(name: str, terms: tuple[Condition, ...], facts: Facts) -> FactMatch:
    seen = conditions.known(name, facts) or ()
    answer = is_met(name, terms, facts)
    # Of several wheels, for example, only the ones for which it holds are printed.
    same = tuple(each for each in seen if meets((each,), terms, facts) is answer)
    return FactMatch(name, " or ".join(each.text for each in terms), same or seen, answer)


def refuse(findings: Iterable[Finding]) -> list[Problem]:
    """Return the warnings that hold; raise ``InputError`` with the errors that do."""
    problems = [finding.problem() for finding in findings if finding.state == HOLDS]
    errors = [problem for problem in problems if problem.level == ERROR]
    if errors:
        raise InputError(*errors)
    return problems


def read_rules(
    text: str, file: str, problems: Problems, *, vocabulary: Vocabulary
) -> dict[str, Rule] | None:
    """Read rules by their ids; what their conditions name must be in the vocabulary."""
    before = len(problems.noted)
    root = parse_document(text, file, problems)
    document = RULES(root, problems) if root else None
    rules: dict[str, Rule] = {}
    first: dict[str, Place] = {}
    for each in document.rules if document and document.rules else ():
        rules[each.id] = each._replace(when=_conditions_of(each.when, vocabulary, problems))
        problems.twice(f"duplicate rule '{each.id}'", each.id, each.place, first, "")
    return rules if len(problems.noted) == before else None


def _conditions_of(
    when: Any, vocabulary: Vocabulary, problems: Problems
) -> dict[str, tuple[Condition, ...]]:
    names = {*conditions.KNOWN, *conditions.WHEELS, *vocabulary.layers}
    result = {}
    for key, value in when.entries if when else ():
        # Of these alone it is known that they are versions.
        free = key.text not in names and not key.text.startswith(PACKAGE)
        if key.text in names or _is_value(key, vocabulary, problems):
            result[key.text] = _conditions(value, names, problems, free=free)
    return result


def _is_value(key: Scalar, vocabulary: Vocabulary, problems: Problems) -> bool:
    """Return whether a key names a package, a variable or a layer's value; note where not."""
    for start, reader in ((PACKAGE, _package), (conditions.ENVIRONMENT, _variables)):
        if key.text.startswith(start):
            rest = Scalar(key.place, key.text.removeprefix(start), plain=False)
            return reader(rest, problems) is not None
    layer, dot, parameter = key.text.rpartition(".")
    if layer in vocabulary.layers:
        known_parameters = {*vocabulary.parameters(layer), conditions.COMMIT}
        if parameter not in known_parameters:
            hint = did_you_mean(parameter, known_parameters)
            problems.add(f"layer '{layer}' has no parameter '{parameter}'", key.place, hint=hint)
        return parameter in known_parameters
    layer_name = layer if dot else key.text
    others = () if dot else (*conditions.KNOWN, *conditions.WHEELS)
    hint = did_you_mean(layer_name, {*others, *vocabulary.layers})
    problems.add(f"layer '{layer_name}' not found", key.place, hint=hint)
    return False


def _conditions(
    node: Node, names: Collection[str], problems: Problems, *, free: bool
) -> tuple[Condition, ...]:
    nodes = node.items if isinstance(node, SequenceNode) else (node,)
    if not nodes:
        problems.add("expected a condition", node.place, hint="write any, or a range")
    result = []
    for each in nodes:
        # A value may be true or a number: it is compared as it is written.
        text = each.text if free and isinstance(each, Scalar) else readers.text(each, problems)
        if text is None:
            continue
        try:
            result.append(conditions.parse(text, names, free=free))
        except ValueError as error:
            hint = 'write a range such as ">=7", or any, or absent'
            problems.add("expected a condition", each.place, why=str(error), hint=hint)
    return tuple(result)
