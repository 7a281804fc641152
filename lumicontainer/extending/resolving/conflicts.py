"""Explain why wanted packages do not fit an image, as a tree, with the ways out."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import InputError, LumicontainerError, Problem
from lumicontainer.extending.resolving import causes
from lumicontainer.extending.resolving.resolution import Question, Refusal, Resolution
from lumicontainer.host.uv import STAND_IN

_NEEDS = re.compile(
    r"(?<!\S)([A-Za-z0-9][\w.-]*+)[>=]=(\S+?) depends on (\S+?)(?=,? (?:and|we)\b|\s|$)"
)
_ALL_NEED = re.compile(r"all versions of (\S+) depend on (\S+?)(?=,? (?:and|we)\b|\s|$)")
"""How uv reports a requirement of one version, and of all versions (uv 0.7 to 0.13)."""
_YOURS = re.compile(r"you require (\S+?)(?=,? (?:and|we)\b|\s|$)")
_ASK = "ask for other versions, or for fewer packages at once"
_MOST = 20
"""The most packages of the image to examine, at a second each."""


class Conflict(NamedTuple):
    """Hold a requirement that a package of the image does not meet."""

    asker: str
    """The package that has the requirement, with its version; empty for the user's own."""
    needs: Requirement

    @property
    def name(self) -> str:
        """Return the package of the image."""
        return normal(self.needs.name)

    @property
    def requirement(self) -> str:
        """Return its name and the versions that would do."""
        return f"{self.name} {','.join(sorted(map(str, self.needs.specifier), reverse=True))}"


def explain(resolution: Resolution, question: Question, failure: Refusal) -> LumicontainerError:
    """Return why nothing fits: each package of the image that stands in the way.

    The newest versions that fit together without the image are asked for. Each of its packages that
    does not fit them is let go in turn.
    """
    if failure.ended_early():
        return causes.explain_early_end(resolution, failure)
    if error := causes.explain_single(resolution, question, failure):
        return error
    image = str(resolution.container.image)
    what, why = "the wanted packages do not fit the image", causes.plain(failure.text)
    everything = question._replace(changeable=frozenset(resolution.facts.packages))
    try:
        alone = resolution.solve(everything)
    except Refusal as error:
        if error.ended_early():
            return causes.explain_early_end(resolution, error)
        what, why = "these packages cannot be installed together", causes.plain(error.text)
        return InputError(Problem(what, image, causes.shorten(why), _ASK))
    obstacles = list(_conflicts(resolution, question, resolution.versions(alone)))
    if not obstacles:
        return InputError(Problem(what, image, causes.shorten(why), _ASK))
    tree = "\n".join(_tree(resolution, obstacles))
    return InputError(Problem(what, image, tree, "\nor ".join(_ways_out(resolution, obstacles))))


def explain_one(resolution: Resolution, refusal: Refusal) -> tuple[str, str]:
    """Return why one version does not fit, and the way out; empty if only a proof of uv says it."""
    obstacles = [each for each in _read(refusal.text) if _differs(resolution, each)]
    packages = resolution.facts.packages
    texts = (
        f"{each.asker or 'you'} need{'s' if each.asker else ''} {each.requirement};"
        f" the image has {packages[each.name].version}"
        for each in obstacles
    )
    options = _changes(obstacles)
    return "\n".join(dict.fromkeys(texts)), f"put others before the image's: {options}"


def _conflicts(
    resolution: Resolution, question: Question, chosen: dict[str, str]
) -> Iterator[Conflict]:
    pins = [f"{n}=={v}" for n, v in chosen.items() if normal(n) not in resolution.facts.packages]
    asking = question._replace(lines=[*question.lines, *pins])
    for _ in range(_MOST):
        try:
            resolution.compile(asking)
        except Refusal as error:
            differing = [each for each in _read(error.text) if _differs(resolution, each)]
            new = [each for each in differing if each.name not in asking.changeable]
            if not new:
                return
            yield from new
            names = {each.name for each in new}
            asking = asking._replace(changeable=asking.changeable | names)
        else:
            return


def _read(text: str) -> Iterator[Conflict]:
    """Yield the requirements in a message of uv; ``text`` may be folded into lines."""
    plain = " ".join(text.split())
    rows = [
        (f"{name} {causes.plain(version)}", needs) for name, version, needs in _NEEDS.findall(plain)
    ]
    rows += [(name, needs) for name, needs in _ALL_NEED.findall(plain)]
    for asker, needs in [*rows, *(("", needs) for needs in _YOURS.findall(plain))]:
        try:
            yield Conflict(asker, Requirement(needs.rstrip(",.")))
        except InvalidRequirement:
            continue


def _differs(resolution: Resolution, conflict: Conflict) -> bool:
    installed = resolution.facts.packages.get(conflict.name)
    versions = conflict.needs.specifier
    if STAND_IN in str(versions):
        return False
    return installed is not None and not versions.contains(installed.version, prereleases=True)


def _tree(resolution: Resolution, obstacles: Sequence[Conflict]) -> Iterator[str]:
    packages = resolution.facts.packages
    for asker in dict.fromkeys(each.asker for each in obstacles):
        yield asker or "your requirements"
        own = [each for each in obstacles if each.asker == asker]
        for number, each in enumerate(own, start=1):
            sign = "└──" if number == len(own) else "├──"
            row = packages[each.name]
            verb = "need" if not asker else "needs"
            text = f"{sign} {verb} {each.requirement}"
            yield f"{text}; the image has {row.version}{_protection(resolution, each.name)}"


def _protection(resolution: Resolution, name: str) -> str:
    compiled = resolution.facts.compiled_against(name)
    if compiled:
        return f", and {', '.join(compiled)} were compiled against it"
    return (
        ", and it is compiled against PyTorch" if resolution.facts.packages[name].protected else ""
    )


def _ways_out(resolution: Resolution, obstacles: Sequence[Conflict]) -> Iterator[str]:
    if askers := [each for each in dict.fromkeys(each.asker for each in obstacles) if each]:
        yield f"ask for another version of {' or '.join(each.split()[0] for each in askers)}"
    yield f"build an image with {', '.join(dict.fromkeys(each.requirement for each in obstacles))}"
    names = dict.fromkeys(each.name for each in obstacles)
    broken = [other for name in names for other in resolution.facts.compiled_against(name)]
    risk = f"; {', '.join(dict.fromkeys(broken))} may then crash" if broken else ""
    yield f"put others before the image's: {_changes(obstacles)}{risk}"


def _changes(obstacles: Sequence[Conflict]) -> str:
    """Return the options that let the packages of the image be replaced."""
    names = dict.fromkeys(each.name for each in obstacles)
    return " ".join(f"--allow-change {name}" for name in names)
