"""Find the modules that installed packages announce; nothing is imported."""

from collections.abc import Collection, Iterator
from importlib.machinery import all_suffixes
from pathlib import Path

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Problem, StepError


def require_modules(tree: Path, elsewhere: Collection[str] = ()) -> None:
    """Raise ``StepError`` if a package of a tree lacks a module that it announces.

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
    if problems:
        raise StepError(*problems)


def _announced(notes: Path) -> Iterator[str]:
    file = notes / "top_level.txt"
    if file.is_file():
        names = (line.strip() for line in file.read_text("utf-8", "replace").splitlines())
        yield from (each for each in names if each.isidentifier() and not each.startswith("_"))


def _is_there(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or any(
        next(folder.glob(f"{name}{end}"), None) for end in (*all_suffixes(), ".*.so")
    )
