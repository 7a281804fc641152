"""Refuse packages that a wheel or a plain build cannot give an image: layers compile them."""

from collections.abc import Collection, Iterator, Sequence

from packaging.pylock import Package, Pylock
from packaging.requirements import Requirement
from packaging.version import Version

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending.resolving.causes import registry_lines
from lumicontainer.importing.replacements import replacement_for


def find_replaced(lines: Sequence[str], installed: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each wanted package that the table of replacements keeps from images.

    A package that the image has, or that comes from a URL, is the user's choice.
    """
    names = dict.fromkeys(normal(Requirement(each).name) for each in registry_lines(lines))
    for name in names:
        row = replacement_for("python", name) if name not in installed else {}
        if row.get("extend", True):
            continue
        if layer := row.get("layer"):
            what = f"{name} has to be compiled for the image"
            why, hint = f"the layer {layer} does it", f"add {layer} to the layers of your recipe"
            yield Problem(what, why=why, hint=f"{hint}, and build it")
        else:
            yield Problem(
                f"{name} cannot be added to an image", why=row["refuse"], hint="leave it out"
            )


def require_fitting(lock: Pylock, installed: Collection[str], accelerator: str) -> None:
    """Raise ``InputError`` if an index gives a package, also a dependency, that no image takes.

    The versions of some packages are too old for an ``accelerator``.
    """
    chosen = [each for each in lock.packages if each.wheels or each.sdist]
    problems = [
        *find_replaced([each.name for each in chosen], installed),
        *_find_old(chosen, accelerator),
    ]
    if problems:
        raise InputError(*problems)


def _find_old(chosen: Sequence[Package], accelerator: str) -> Iterator[Problem]:
    for each in chosen:
        row = replacement_for("python_versions", normal(each.name), accelerator)
        if row and each.version and each.version < Version(row["version"]):
            what = f"{each.name} {each.version} is too old for the image"
            hint = f"ask for '{each.name}>={row['version']}'"
            yield Problem(what, why=row["refuse"], hint=hint)
