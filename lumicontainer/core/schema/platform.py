"""Read a platform, and refuse rows that contradict each other."""

from collections.abc import Mapping, Sequence

from lumicontainer.core.model import Discouraged, Platform, Slurm, Variable
from lumicontainer.core.model.platform import PLATFORM
from lumicontainer.core.yaml.parse import read_document
from lumicontainer.core.yaml.ranges import is_empty, whole
from lumicontainer.errors import Place, Problems, near_hint
from lumicontainer.inside import environment as inside
from lumicontainer.inside.entry.decide import SINGLE
from lumicontainer.inside.launch.launchers import RANKS
from lumicontainer.inside.rank.variables import is_meant
from lumicontainer.inside.version_range import parse_range

_DECIDED = {*RANKS, *SINGLE}
"""The variables that lumi-entry finds by itself."""
_OVERLAP = "give them conditions that exclude each other, such as <6.2 and >=6.2"


def read_platform(text: str, file: str, problems: Problems, *, stem: str) -> Platform | None:
    """Read a platform; ``stem`` is its file's name without the suffix, and becomes its name."""
    document = read_document(PLATFORM, text, file, problems)
    if document is None:
        return None
    before = len(problems.noted)
    _check_variables(document, problems)
    _check_caches(document, problems)
    for row in document.discouraged:
        _check_discouraged(row, document.variables, problems)
    _check_slurm(document.slurm, problems)
    return document._replace(name=stem) if len(problems.noted) == before else None


def _check_slurm(slurm: Slurm, problems: Problems) -> None:
    rules, partitions = dict[str, Place](), dict[str, Place]()
    for rule in slurm.billing:
        problems.twice(f"duplicate billing rule '{rule.name}'", rule.name, rule.name.place, rules)
    for each in slurm.partitions:
        problems.twice(f"duplicate partition '{each.name}'", each.name, each.name.place, partitions)
        if each.billing not in rules:
            hint = near_hint(each.billing, rules) or "add a row of that name to 'billing'"
            problems.add(f"no billing rule '{each.billing}'", each.billing.place, hint=hint)


def _check_variables(platform: Platform, problems: Problems) -> None:
    for number, row in enumerate(platform.variables):
        name, place = row.name, row.name.place
        if name in _DECIDED:
            why = "lumi-entry decides it from what the launcher sets"
            problems.add(f"a platform cannot set {name}", place, why=why, hint="leave it out")
        if bool(row.value) == bool(row.value_from):
            problems.add(f"'{name}' needs either 'value' or 'value_from'", place)
        if row.value_from == inside.INTERFACES and not platform.interface_prefix:
            hint = "add 'interface_prefix: …', what their names begin with"
            problems.add("the platform names no interfaces", place, hint=hint)
        for other in platform.variables[:number]:
            if other.name == name and not _exclude(row.when, other.when):
                _note_overlap(f"'{name}' is set twice", row, other, problems)


def _note_overlap(
    what: str, row: Variable | Discouraged, other: Variable, problems: Problems
) -> None:
    why = f"the row at line {other.name.place.line} may hold at the same time"
    problems.add(what, row.name.place, why=why, hint=_OVERLAP)


def _check_caches(platform: Platform, problems: Problems) -> None:
    first = {str(each.name): each.name.place for each in platform.variables}
    for cache in platform.caches:
        problems.twice(f"'{cache.name}' is set twice", cache.name, cache.name.place, first)


def _check_discouraged(row: Discouraged, variables: Sequence[Variable], problems: Problems) -> None:
    """Note a row that says two things at once, or discourages what the platform itself sets."""
    if row.values and row.allowed_values:
        why = "one says which values are meant, the other which are not"
        what = f"'{row.name}' has both 'values' and 'allowed_values'"
        problems.add(what, row.name.place, why=why)
        return
    meaning = {key: value for key, value in row._asdict().items() if value}
    for each in variables:
        both = each.name == row.name and is_meant(meaning, each.value)
        if both and not _exclude(row.when, each.when):
            what = f"'{row.name}' is discouraged, and set to {each.value}"
            _note_overlap(what, row, each, problems)


def _exclude(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    for key in one.keys() & other.keys():
        both = one[key], other[key]
        if key == "plugin" and _plugins_exclude(*both):
            return True
        if key in ("rocm", "pytorch", "jax", "libfabric", "slingshot", "nodes", "ranks"):
            limits = [limit for text in both for limit in parse_range(text)]
            if is_empty(whole(limits) if key in ("nodes", "ranks") else limits):
                return True
    return False


def _plugins_exclude(one: str, other: str) -> bool:
    (name, _, limits), (other_name, _, other_limits) = one.partition(" "), other.partition(" ")
    if inside.ANY in (name, other_name):
        return False
    if name != other_name:  # An image holds one plugin.
        return True
    both = bool(limits and other_limits)
    return both and is_empty([*parse_range(limits), *parse_range(other_limits)])
