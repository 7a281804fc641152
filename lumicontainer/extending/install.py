"""Install what a lock names into a folder: wheels first, then what must be compiled."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from typing import Any

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import InputError, Problem, StepError
from lumicontainer.extending.container import Container
from lumicontainer.extending.facts import Facts
from lumicontainer.inside.elf.reader import UnreadableError, linked
from lumicontainer.inside.image.distributions import Package
from lumicontainer.inside.image.facts import LIBRARIES

_INSTALL = ("pip", "install", "--python", "python3", "--no-deps", "--compile-bytecode")
_MISSING = re.compile(r"No module named '([\w.]+)'")
BLOCK = "[[packages]]\n"
"""What begins a package in a lock."""


class Installation:
    """Install packages for an image into ``tree``, which is mounted at /user-software."""

    def __init__(self, container: Container, facts: Facts) -> None:
        self._container, self._facts = container, facts
        self.tree = container.folder / "tree"
        self._packages = self.tree / f"lib/python{facts.python}/site-packages"

    def install(self, lock: str) -> None:
        """Install the packages of a lock; raise ``StepError`` if one cannot be built."""
        self._packages.mkdir(parents=True)
        for number, part in enumerate(parts(lock)):
            path = self._container.folder / f"pylock.part{number}.toml"
            path.write_text(part)
            words = [*_INSTALL, "--target", str(self._packages), "--requirement", str(path)]
            # What a source is built with may be among the wheels.
            seen = {"PYTHONPATH": str(self._packages)}
            done = self._container.uv(*words, "--no-build-isolation", variables=seen)
            if done.returncode:
                raise _refused(part, done.stderr)
        scripts = self._packages / "bin"
        if scripts.is_dir():
            # The lists of the packages' files name them here.
            (self.tree / "bin").symlink_to(scripts.relative_to(self.tree))

    def distributions(self) -> dict[str, str]:
        """Return the versions of the installed packages, by their plain names."""
        found = (PathDistribution(each) for each in sorted(self._packages.glob("*.dist-info")))
        return {normal(str(each.metadata["Name"])): each.version for each in found}

    def require_no_hiding(self, changeable: frozenset[str]) -> None:
        """Raise ``InputError`` if a package would hide a module of the image that has to stay."""
        owners = {
            module: name
            for name, row in self._facts.packages.items()
            if name not in changeable
            for module in row.modules
        }
        problems = list(_hiding(self._packages, owners, changeable))
        if problems:
            raise InputError(*problems)

    def require_fitting_libraries(self, changeable: frozenset[str]) -> None:
        """Raise ``InputError`` if a library was linked with another build of PyTorch."""
        if "torch" in changeable or "torch" not in self._facts.packages:
            return
        missing: dict[str, set[str]] = {}
        for path in self._packages.rglob("*.so"):
            names = [name for name in _linked(path) if name.startswith(LIBRARIES)]
            if others := set(names) - self._facts.libraries:
                owner = path.relative_to(self._packages).parts[0]
                missing.setdefault(owner, set()).update(others)
        version = self._facts.packages["torch"].version
        problems = [
            Problem(
                f"{package} was compiled for another build of PyTorch",
                why=f"torch {version} of the image has no {', '.join(sorted(names))}",
                hint=f"add an index with {package} for torch {version} to pip's configuration "
                "(extra-index-url), or leave it out",
            )
            for package, names in sorted(missing.items())
        ]
        if problems:
            raise InputError(*problems)


def _linked(path: Path) -> tuple[str, ...]:
    try:
        return linked(str(path)).needed
    except (OSError, UnreadableError):
        return ()


def _hiding(
    folder: Path, owners: Mapping[str, str], changeable: frozenset[str]
) -> Iterator[Problem]:
    for path in sorted(folder.glob("*.dist-info")):
        found: Distribution = PathDistribution(path)
        name = normal(str(found.metadata["Name"]))
        for module in Package(found).modules() if name not in changeable else ():
            if owner := owners.get(module):
                what = f"{name} would hide the module '{module}' of the image's {owner}"
                hint = f"leave {name} out, or let it: --allow-change {owner}"
                yield Problem(what, why="both packages have this module", hint=hint)


def parts(lock: str) -> Iterator[str]:
    """Yield a lock with its wheels alone, and one with its sources alone, if there are any."""
    head, *blocks = lock.split(BLOCK)
    named = [(block, tomllib.loads(f"{BLOCK}{block}")["packages"][0]) for block in blocks]
    for wheels in (True, False):
        chosen = [block for block, row in named if ("wheels" in row) is wheels]
        if chosen:
            yield "".join([head, *(f"{BLOCK}{block}" for block in chosen)])


def rows(lock: str) -> list[Mapping[str, Any]]:
    """Return the packages of a lock."""
    return list(tomllib.loads(lock).get("packages", ()))


def _refused(part: str, printed: str) -> StepError:
    names = ", ".join(str(row["name"]) for row in rows(part))
    if "wheels" in rows(part)[0]:
        what, hint = "cannot install the packages", "read the message of uv"
    else:
        what = f"cannot build {names} in the image"
        missing = _MISSING.findall(printed)
        hint = f"name the package of '{missing[-1]}' too" if missing else "read its message"
    last = "\n".join(printed.strip().splitlines()[-20:])
    return StepError(Problem(what, why=last, hint=hint))
