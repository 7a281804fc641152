"""Read ranges of versions and numbers, and lists of processors."""

import re
from collections.abc import Sequence

from lumicontainer.core.yaml.readers import checked, line, text
from lumicontainer.errors import Fault, did_you_mean
from lumicontainer.inside import environment as inside
from lumicontainer.inside.node import cpulist
from lumicontainer.inside.version_range import Limit, parse_range

_LIST = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")


def _no_list(value: str) -> Fault | None:
    if not _LIST.fullmatch(value):
        return Fault(f"expected a list of processors such as 1-7, got '{value}'")
    numbers = [int(number) for number in re.findall("[0-9]+", value)]
    if numbers != sorted(numbers) or numbers[-1] >= cpulist.MOST:
        why = f"its numbers rise, and each is below {cpulist.MOST}"
        return Fault(f"invalid list of processors '{value}'", why)
    return None


cpus = checked(text, _no_list, pattern=f"^{_LIST.pattern}$")
"""A list of processors as the kernel writes it: ``49-55``, ``0,8,16``."""


def _no_limits(value: str) -> Fault | None:
    try:
        limits = parse_range(value)
    except ValueError as error:
        return Fault("expected a range", str(error))
    if is_empty(limits):
        return Fault(f"nothing lies in the range '{value}'", hint="correct its limits")
    return None


def _no_count(value: str) -> Fault | None:
    versions = any(len(limit) > 1 for _, limit in parse_range(value))
    return Fault(f"expected whole numbers, got '{value}'") if versions else None


def _no_plugin(value: str) -> Fault | None:
    name, space, range_text = value.partition(" ")
    known = inside.PLUGINS if space else (inside.ANY, *inside.PLUGINS)
    if name not in known:
        return Fault(f"invalid plugin '{name}'", hint=did_you_mean(name, known))
    return _no_limits(range_text) if space else None


limits = checked(text, _no_limits, minLength=1)
"""A range of versions or numbers that something can lie in."""
count = checked(limits, _no_count)
"""A range of whole numbers."""
plugin = checked(
    line, _no_plugin, pattern=f"^(?:{inside.ANY}|(?:{'|'.join(inside.PLUGINS)})(?: .+)?)$"
)
"""``any``, the name of a plugin's layer, or that with a range."""


def is_empty(limits: Sequence[Limit]) -> bool:
    """Return whether nothing lies within all of the limits."""
    lows = [(limit, operator == ">") for operator, limit in limits if operator[0] == ">"]
    highs = [(limit, operator == "<=") for operator, limit in limits if operator[0] == "<"]
    if not lows or not highs:
        return False
    (low, above), (high, included) = max(lows), min(highs)
    return low > high or (low == high and (above or not included))


def whole(limits: Sequence[Limit]) -> list[Limit]:
    """Return limits of whole numbers so that none lies between two of them: >1 as >=2."""
    numbers = ((operator, limit[0] if limit else 0) for operator, limit in limits)
    moved = {">": (">=", 1), "<=": ("<", 1)}
    pairs = ((*moved.get(operator, (operator, 0)), number) for operator, number in numbers)
    return [(operator, (number + step,)) for operator, step, number in pairs]
