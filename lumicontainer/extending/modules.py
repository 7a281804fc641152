"""Require that Python finds the modules of installed packages; nothing is imported."""

import csv
import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Problem, StepError
from lumicontainer.extending.finders import is_extension_module, module_finder

_SHOWN, _LETTERS, _LINE = 5, 100, 200
"""How many missing modules a message names, and how much of what the package says of each."""
_SOURCE = re.compile(r"([^\W\d]\w*)(?:/__init__)?\.py")
"""The path of a module's code in Python."""


def require_modules(
    tree: Path, elsewhere: Collection[str] = (), requested: Collection[str] = ()
) -> None:
    """Raise ``StepError`` if Python finds not all modules of a package.

    One that is ``requested`` is useless without a file, unless it names other packages.

    Names that begin with an underscore are not counted: they may be optional extensions. The
    modules of the packages ``elsewhere`` are in a folder of the user.
    """
    problems = []
    for notes in sorted(tree.glob("lib/python*/site-packages/*.dist-info")):
        name = normal(notes.stem.partition("-")[0])
        if name in elsewhere:
            continue
        python = notes.parents[1].name.removeprefix("python")
        finder = module_finder(notes.parent, python)
        listed = {name: why for name, why in _modules(notes, python) if not name.startswith("_")}
        if missing := {n: why for n, why in listed.items() if finder.find_spec(n) is None}:
            names = [repr(each[:_LETTERS]) for each in missing][:_SHOWN]
            what = f"{notes.stem} has no module {', '.join(names)}"
            why = "\n".join(each[:_LINE] for each in [*missing.values()][:_SHOWN])
            hint = "ask for another version of the package"
            problems.append(Problem(what, why=why, hint=hint))
        elif name in requested and _is_empty(notes):
            what, why = f"{notes.stem} is empty", "it has no file and needs no package"
            hint = "ask for another version; of your own code, name its modules to its build"
            problems.append(Problem(what, why=why, hint=hint))
    if problems:
        raise StepError(*problems)


def _modules(notes: Path, python: str) -> Iterator[tuple[str, str]]:
    """Yield the modules that a package announces, and those that its list of files has."""
    files = [*_files(notes)]
    # Setuptools names a compiled module there, too, that a package holds.
    inner = {PurePosixPath(path).name.partition(".")[0] for path in files if _is_inner(path)}
    announced = (name for name in _announced(notes) if name not in inner)
    yield from ((name, f"its file top_level.txt names {name}") for name in announced)
    for path in files:
        if is_extension_module(path):
            yield path.partition(".")[0], f"its file {path} is not for Python {python} of the image"
        elif match := _SOURCE.fullmatch(path):
            yield match[1], f"its list of files, RECORD, names {path}"


def _is_inner(path: str) -> bool:
    return "/" in path and path.endswith(".so")


def _files(notes: Path) -> Iterator[str]:
    with (notes / "RECORD").open(encoding="utf-8", errors="replace", newline="") as file:
        yield from (row[0] for row in csv.reader(file) if row)


def _is_empty(notes: Path) -> bool:
    """Return whether a package has neither files nor dependencies."""
    if any(not path.startswith(f"{notes.name}/") for path in _files(notes)):
        return False
    text = (notes / "METADATA").read_text("utf-8", "replace").partition("\n\n")[0]
    return "\nRequires-Dist:" not in text


def _announced(notes: Path) -> Iterator[str]:
    file = notes / "top_level.txt"
    if file.is_file():
        names = (line.strip() for line in file.read_text("utf-8", "replace").splitlines())
        yield from filter(str.isidentifier, names)
