"""Ranges of versions and numbers in a platform: ``<6.2``, ``>=6.2,<7.0``, ``>1``.

``6.4`` is every version that begins with it, so for whole numbers ``1`` is only 1.
"""

import operator
import re

_NUMBERS = re.compile(r"[0-9]+(\.[0-9]+)*")
OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

Version = tuple[int, ...]
Limit = tuple[str, Version]


def version(text: str) -> Version:
    """Return the numbers at the start of a version: ``v6.4.4-129`` is 6.4.4.

    Trailing zeros are removed, so 6.2 and 6.2.0 are equal. Raises ValueError without a number.
    """
    numbers = _numbers(text.strip().removeprefix("v"))
    if not numbers:
        raise ValueError(f"invalid version '{text}'")
    return _short(numbers)


def parse_range(text: str) -> list[Limit]:
    """Return the limits of a range; raise ValueError with the reason if it is invalid."""
    limits: list[Limit] = []
    for part in text.split(","):
        word = part.strip()
        sign = next((each for each in OPERATORS if word.startswith(each)), "")
        number = word[len(sign) :].strip()
        numbers = _numbers(number)
        if ".".join(map(str, numbers)) != number or not numbers:
            raise ValueError(f"invalid limit '{word}': expected one such as <6.2, >=6.2, >1 or 6.4")
        limits.append((sign or ">=", _short(numbers)))
        if not sign:
            limits.append(("<", (*numbers[:-1], numbers[-1] + 1)))
    return limits


def holds(text: str, number: str) -> bool:
    """Return whether the version or number ``number`` is in the range ``text``."""
    here = version(number)
    return all(OPERATORS[sign](here, limit) for sign, limit in parse_range(text))


def _numbers(text: str) -> Version:
    match = _NUMBERS.match(text)
    return tuple(map(int, match[0].split("."))) if match else ()


def _short(numbers: Version) -> Version:
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers
