"""Say which extras of wanted packages do not exist: a resolver passes over them."""

from collections.abc import Iterator, Sequence

from packaging.requirements import Requirement

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Problem
from lumicontainer.extending.resolving.causes import plain, registry_lines
from lumicontainer.extending.resolving.resolution import Resolution


def find_missing_extras(resolution: Resolution, lines: Sequence[str]) -> Iterator[Problem]:
    """Yield a warning for each extra in the user's lines that its package does not have."""
    requested = {
        (normal(each.name), normal(extra))
        for each in map(Requirement, registry_lines(lines))
        for extra in each.extras
    }
    for package, version, extra in resolution.missing_extras:
        name = normal(package)
        if (name, normal(extra)) not in requested:
            continue
        known = resolution.facts.extras(name) if name in resolution.facts.packages else {}
        what = f"{package} {plain(version)} has no extra '{extra}'"
        hint = f"it has {', '.join(sorted(known))}" if known else f"write {package}"
        yield Problem(what, why="it adds nothing", hint=hint, level="warning")
