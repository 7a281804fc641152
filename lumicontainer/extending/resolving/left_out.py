"""Say which newer versions of wanted packages are left out, and why."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from packaging.version import Version

from lumicontainer.errors import Problem
from lumicontainer.extending.resolving import causes, conflicts
from lumicontainer.extending.resolving.resolution import Question, Refusal, Resolution


def find_left_out(
    resolution: Resolution, question: Question, chosen: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a warning for each wanted package of which a newer version does not fit."""
    newest: dict[str, str] = {}
    with suppress(Refusal):
        newest = resolution.newest(causes.registry_lines(question.lines))
    for name, version in newest.items():
        if name in chosen and Version(chosen[name]) < Version(version):
            what = f"{name} {version} is left out, and {chosen[name]} is added"
            why = _reason(resolution, question, f"{name}=={version}")
            yield Problem(what, why=why, level="warning")


def _reason(resolution: Resolution, question: Question, newer: str) -> str:
    try:
        resolution.compile(question._replace(lines=[*question.lines, newer]))
    except Refusal as refusal:
        found = conflicts.reasons(resolution, refusal)
        return found or causes.shorten(causes.plain(refusal.text))
    return "another wanted package gets a newer version without it"
