"""Find the modules that installed packages announce; nothing is imported."""

import csv
from collections.abc import Collection, Iterator
from importlib.machinery import all_suffixes
from pathlib import Path

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Problem, StepError


def require_modules(tree: Path, elsewhere: Collection[str] = ()) -> None:
    """Raise ``StepError`` if a package of a tree lacks a module that it announces, or is empty.

    One without a file is no use, unless it names other packages.

    Names that begin with an underscore are not counted: they may be optional extensions. The
    modules of the packages ``elsewhere`` are in a folder of the user.
    """
    problems = []
    for notes in sorted(tree.glob("lib/*/site-packages/*.dist-info")):
        if normal(notes.stem.partition("-")[0]) in elsewhere:
            continue
        if missing := [each for each in _announced(notes) if not _is_there(notes.parent, each)]:
            what = f"{notes.stem} has no module {', '.join(map(repr, missing))}"
            why, hint = "its file top_level.txt names it", "ask for another version of the package"
            problems.append(Problem(what, why=why, hint=hint))
        elif _is_empty(notes):
            what, why = f"{notes.stem} is empty", "it has no file and needs no package"
            hint = "ask for another version; of your own code, name its modules to its build"
            problems.append(Problem(what, why=why, hint=hint))
    if problems:
        raise StepError(*problems)


def _is_empty(notes: Path) -> bool:
    """Return whether a package has neither files nor needs."""
    with (notes / "RECORD").open(encoding="utf-8", errors="replace", newline="") as file:
        if any(not row[0].startswith(f"{notes.name}/") for row in csv.reader(file) if row):
            return False
    text = (notes / "METADATA").read_text("utf-8", "replace").partition("\n\n")[0]
    return "\nRequires-Dist:" not in text


def _announced(notes: Path) -> Iterator[str]:
    file = notes / "top_level.txt"
    if file.is_file():
        names = (line.strip() for line in file.read_text("utf-8", "replace").splitlines())
        yield from (each for each in names if each.isidentifier() and not each.startswith("_"))


def _is_there(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or any(
        next(folder.glob(f"{name}{end}"), None) for end in (*all_suffixes(), ".*.so")
    )
