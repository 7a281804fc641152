"""Conditions of rules on an image, each of which is true, false or not known.

A condition is ``any``, ``absent``, or terms with commas between them, of which all must hold. A
term is an operator and what is compared with: a version (``>=7``, ``<6.2``; a bare ``6.4`` is every
version that begins with it, ``!=6.4`` every other), the first digits of a commit (``3f94643``),
another fact by its name (``!=rocm``, ``>glibc``), or the text of a value (``host``), in which
``*`` stands for any text.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

from packaging.version import Version

from lumicontainer.inside import version_range

ANY, ABSENT = "any", "absent"
OTHER = "!="
OPERATORS = (OTHER, *version_range.OPERATORS)
DRIVER = "driver"
KNOWN = (DRIVER, "glibc", "python")
"""Facts that every image has, although their values may not be known."""
WHEELS = ("wheel.rocm", "wheel.python", "wheel.glibc")
"""Facts about the targets of the image's wheels."""
ENVIRONMENT, PACKAGE = "environment.", "package."
"""Prefixes of facts about variables in the image, and about versions of Python packages."""
EITHER = "|"
"""Stands between names of variables; one of them is enough."""
COMMIT = "commit"
"""Follows a layer's name in a fact about the commits of its sources."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)*")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


class Fact(NamedTuple):
    """Hold one fact of an image, and its place."""

    value: str
    """Empty if it is present without a version."""
    place: str = ""
    variable: str = ""
    """Of a variable in the image: its name."""


Facts: TypeAlias = Mapping[str, tuple[Fact, ...]]
"""The known facts by name: ``rocm`` (a layer's version), ``mpich.provider``, ``driver`` …"""


class Term(NamedTuple):
    """Hold one comparison; without an operator it is with what must be so."""

    operator: str
    operand: str
    names_fact: bool
    """Whether the operand is the name of the fact to compare with."""


class Condition(NamedTuple):
    """Hold a condition as it is written, and its terms; ``any`` and ``absent`` have none."""

    text: str
    terms: tuple[Term, ...] = ()


def parse(text: str, names: Collection[str], *, free: bool = False) -> Condition:
    """Return a condition; raise ValueError, which says why, for another text.

    ``names`` are the facts that it may compare with. With ``free`` a term without an order may be
    any text, for values that are not versions.
    """
    if text in (ANY, ABSENT):
        return Condition(text)
    terms = tuple(_term(word.strip(), names) for word in text.split(","))
    for term in terms:
        fits = term.names_fact or bool(_NUMBER.fullmatch(term.operand))
        if not fits and term.operator not in version_range.OPERATORS:
            fits = bool(_COMMIT.fullmatch(term.operand) or (free and term.operand))
        if not fits:
            raise ValueError(f"'{term.operator}{term.operand}' names no version and no other fact")
    return Condition(text, terms)


def _term(word: str, names: Collection[str]) -> Term:
    operator = next((each for each in OPERATORS if word.startswith(each)), "")
    operand = word[len(operator) :].strip()
    return Term(operator, operand, operand in names)


def known(name: str, facts: Facts) -> tuple[Fact, ...] | None:
    """Return the facts of a name: empty if it is absent, None if it is not known."""
    if name.startswith(ENVIRONMENT):
        patterns = name.removeprefix(ENVIRONMENT).split(EITHER)
        names = [each for each in facts if _is_variable(each, patterns)]
        return tuple(fact for each in names for fact in facts[each])
    return facts.get(name, None if name in KNOWN else ())


def _is_variable(name: str, patterns: Iterable[str]) -> bool:
    variable = name.removeprefix(ENVIRONMENT)
    return variable != name and any(fnmatchcase(variable, each) for each in patterns)


def is_met(name: str, conditions: Sequence[Condition], facts: Facts) -> bool | None:
    """Return whether one of the conditions of a fact holds, or None if that is not known."""
    values = known(name, facts)
    return None if values is None else meets(values, conditions, facts)


def meets(values: Sequence[Fact], conditions: Sequence[Condition], facts: Facts) -> bool | None:
    """Return whether what was found meets one of the conditions, or None if that is not known."""
    return _any_of(_is_met(values, each, facts) for each in conditions)


def _is_met(values: Sequence[Fact], condition: Condition, facts: Facts) -> bool | None:
    if not condition.terms:
        return bool(values) == (condition.text == ANY)
    return _any_of(
        _all_of(_holds(fact.value, term, facts) for term in condition.terms) for fact in values
    )


def _any_of(answers: Iterable[bool | None]) -> bool | None:
    seen = set(answers)
    return True if True in seen else None if None in seen else False


def _all_of(answers: Iterable[bool | None]) -> bool | None:
    seen = set(answers)
    return False if False in seen else None if None in seen else True


def _holds(value: str, term: Term, facts: Facts) -> bool | None:
    if not value:
        return None
    if term.names_fact:
        others = known(term.operand, facts)
        if others is None:
            return None
        return _any_of(_compared(value, term.operator, other.value) for other in others)
    if term.operator in ("", OTHER):
        return _equal(value, term.operand, same_value=term.operator == "")
    return _in_range(value, term.operator, term.operand)


def _equal(value: str, operand: str, *, same_value: bool) -> bool | None:
    if value == operand or ("*" in operand and fnmatchcase(value, operand)):
        return same_value
    if _COMMIT.fullmatch(operand):
        same = value.startswith(operand) or operand.startswith(value)
        return (same and _COMMIT.fullmatch(value) is not None) == same_value
    if not _NUMBER.fullmatch(operand):
        return not same_value
    here = release(value)
    if here is None:
        return None
    numbers = tuple(map(int, operand.split(".")))
    release_cut = (*here, *(0 for _ in numbers))[: len(numbers)]
    return (release_cut == numbers) == same_value


def _compared(version: str, operator: str, other: str) -> bool | None:
    """Compare two versions that were found; they are the same as far as both of them say."""
    here, limit = release(version), release(other)
    if here is None or limit is None:
        return None
    if operator in ("", OTHER):
        known_parts = min(len(here), len(limit))
        return (here[:known_parts] == limit[:known_parts]) == (operator == "")
    return _in_range(version, operator, ".".join(map(str, limit)))


def _in_range(version: str, operator: str, limit: str) -> bool | None:
    here = release(version)
    return None if here is None else version_range.holds(operator + limit, ".".join(map(str, here)))


def release(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a version's release: 2.9.1 of ``2.9.1+rocm6.4``; none of a commit."""
    if _COMMIT.fullmatch(text):
        return None
    with suppress(ValueError):
        return Version(text).release
    # What PEP 440 does not know, such as the tag v2.7.3-cktile.
    with suppress(ValueError):
        return version_range.version(text)
    return None
