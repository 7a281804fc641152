"""Say which newer versions of wanted packages are left out, and why."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from packaging.requirements import Requirement
from packaging.version import Version

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Problem
from lumicontainer.extending.resolving import causes, conflicts
from lumicontainer.extending.resolving.resolution import Question, Refusal, Resolution

_YEARS = 1900
"""The least first number of a version that is a year."""
_FEW_YEARS = 1


def find_left_out(
    resolution: Resolution, question: Question, chosen: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a warning for each requested package whose newer version does not fit.

    An older major version is an error: users would get another program than they know.
    """
    lines = causes.registry_lines(question.lines)
    for name, version in _newest(resolution, lines, chosen).items():
        if name in chosen and Version(chosen[name]) < Version(version):
            newer, why, hint = _explain_newest(resolution, question, name, version)
            if _is_other_program(chosen[name], newer):
                what = f"{name} {newer} does not fit, and {chosen[name]} is an older major version"
                ways = "\n".join(filter(None, (hint, f"or name it: '{name}=={chosen[name]}'")))
                yield Problem(what, why=why, hint=ways)
            else:
                what = f"{name} {newer} is left out, and {chosen[name]} is added"
                yield Problem(what, why=why, hint=hint, level="warning")


def _is_other_program(old: str, new: str) -> bool:
    """Return whether two versions differ in their first number, or by more than a year."""
    first, second = Version(old).major, Version(new).major
    return first < second - (_FEW_YEARS if second >= _YEARS else 0)


def _newest(
    resolution: Resolution, lines: Sequence[str], chosen: Mapping[str, str]
) -> dict[str, str]:
    """Return the newest versions of added packages.

    None is known of a package that has pre-releases only, and of one that no index has.
    """
    added = {each: chosen.get(normal(Requirement(each).name), "") for each in lines}
    named = [each for each, version in added.items() if version]
    finished = [each for each in named if not Version(added[each]).is_prerelease]
    for some in (named, finished):
        with suppress(Refusal):
            return resolution.newest(some) if some else {}
    return {}


def _explain_newest(
    resolution: Resolution, question: Question, name: str, newest: str
) -> tuple[str, str, str]:
    """Return the newest version that only the image is in the way of, the reason, and a way out.

    The newest of all may need what no index has; then that is the reason, unless an image without
    packages would get another version that is newer than the chosen one.
    """
    why, hint = _explain(resolution, question, f"{name}=={newest}")
    if hint:
        return newest, why, hint
    everything = question._replace(changeable=frozenset(resolution.facts.packages))
    with suppress(Refusal):
        alone = resolution.versions(resolution.solve(everything)).get(name, newest)
        other, way = _explain(resolution, question, f"{name}=={alone}")
        if way:
            return alone, other, way
    return newest, why, hint


def _explain(resolution: Resolution, question: Question, newer: str) -> tuple[str, str]:
    """Return why a newer version is left out, and the way to get it if there is one."""
    try:
        resolution.compile(question._replace(lines=[*question.lines, newer]))
    except Refusal as refusal:
        why, hint = conflicts.explain_one(resolution, refusal)
        return (why, hint) if why else (causes.shorten(causes.plain(refusal.text)), "")
    return "another wanted package gets a newer version without it", ""
