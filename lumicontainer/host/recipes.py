"""Find what a user names: a recipe by its name or its file, its lock, and the platform."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.core import habits
from lumicontainer.core.catalog import Catalog, open_catalog, shipped_folder, short_path
from lumicontainer.core.lock import Lock, apply_lock, faults, file_name, read_lock, text_of
from lumicontainer.core.model import Platform
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve as decide
from lumicontainer.errors import InputError, LockError, Problem, Problems, near_hint
from lumicontainer.host.machine import platform_here
from lumicontainer.system.files.recipe_folder import display, read_bytes, read_text
from lumicontainer.system.files.write import write_whole
from lumicontainer.system.terminal.output import report

SUFFIX = ".yaml"


def resolve_recipe(
    recipe: str | Path,
    *,
    platform: str | None = None,
    profile: str = "",
    values: Sequence[str] = (),
    recipes: Path | None = None,
    locked: bool = False,
) -> Resolved:
    """Read a recipe, named or by its file, and decide every value of its image.

    ``platform`` is this host's by default. ``values`` are texts ``layer.parameter=value``.
    ``recipes`` is a folder of your own, searched first. ``locked`` takes the pins of the lock.

    Raises ``InputError`` with all problems, and ``LockError`` for a missing or incomplete lock.
    """
    name, folder = locate_recipe(str(recipe), recipes)
    catalog = open_catalog(folder)
    if (near := nearby(name)) and name not in catalog.names("recipe"):
        raise InputError(Problem(f"recipe '{name}' not found", hint=f"name its file: {near}"))
    where = platform or detect_platform(catalog)
    resolved = decide(catalog.materials(name, where, profile), values)
    return _take_pins(resolved, catalog, word_of(name, folder)) if locked else resolved


def nearby(recipe: str) -> str:
    """Return the file of a recipe in the current folder, or where ``init`` writes it."""
    files = (f"./{recipe}{SUFFIX}", f"{recipe}/{recipe}{SUFFIX}")
    return next((file for file in files if Path(file).is_file()), "")


def locate_recipe(recipe: str, folder: Path | None) -> tuple[str, Path | None]:
    """Return the name of a recipe and its folder; None is the folder of the shipped ones.

    Raises ``InputError`` if the file is missing, or ``folder`` is another one.
    """
    _refuse_other_files(recipe)
    if not ("/" in recipe or recipe.endswith((SUFFIX, ".yml"))):
        return recipe, folder
    path = Path(recipe)
    _check_file(path)
    if folder and folder.resolve() != path.parent.resolve():
        why = f"the folder of this file is {display(path.parent)}, and --recipes is {folder}"
        hint = "leave --recipes out, or name the recipe by its name"
        raise InputError(Problem("a recipe has one folder", recipe, why, hint))
    shipped = path.parent.resolve() == shipped_folder("recipes").resolve()
    return path.stem, None if shipped else path.parent


def _refuse_other_files(word: str) -> None:
    """Raise ``InputError`` if a word that stands for a recipe names a file of another program."""
    # A recipe that has the wrong suffix gets another hint.
    is_recipe = word.endswith(".yml") and Path(f"{word[:-4]}{SUFFIX}").is_file()
    if not is_recipe and (hint := habits.habit_hint(habits.RECIPE, word)):
        raise InputError(Problem(f"expected a recipe, got '{word}'", hint=hint))


def _check_file(path: Path) -> None:
    if path.is_dir():
        hint = "name a file in it"
        raise InputError(Problem(f"expected the file of a recipe, got folder '{path}'", hint=hint))
    if path.suffix != SUFFIX:
        other = path.with_suffix(SUFFIX)
        hint = f"did you mean '{other}'?" if other.is_file() else f"rename it to {other.name}"
        raise InputError(Problem(f"the name of recipe '{path}' must end in {SUFFIX}", hint=hint))
    if not path.is_file():
        if os.path.lexists(path):
            read_bytes(path.parent, path.name)  # It says what is there.
        near = near_hint(str(path), map(str, path.parent.glob(f"*{SUFFIX}")))
        if path.stem in open_catalog().names("recipe"):
            near = near or f"name it alone: {path.stem}"
        hint = near or "lumicontainer init NAME writes a recipe to start from"
        raise InputError(Problem(f"recipe file '{path}' not found", hint=hint))


def refuse_other_words(path: Path) -> None:
    """Raise ``InputError`` if a path that does not exist is known as another thing."""
    if os.path.lexists(path):
        return
    word = habits.typed_word(path)
    what, why, hint = f"expected the file of an image, got '{word}'", "", ""
    if os.path.isfile(f"{path}.sif"):  # noqa: PTH113 - also if the folder is closed
        hint = f"did you mean '{path}.sif'?"
    elif word in open_catalog().names("recipe"):
        why, hint = f"'{word}' is a recipe", f"lumicontainer build {word} writes {word}.sif"
    if hint := hint or habits.habit_hint(habits.IMAGE, word):
        raise InputError(Problem(what, why=why, hint=hint))


def word_of(recipe: str, folder: Path | None) -> str:
    """Return the word that names a recipe on a command line."""
    return recipe if folder is None else shlex.quote(display(folder / f"{recipe}{SUFFIX}"))


def find_platform(catalog: Catalog, name: str | None) -> Platform:
    """Read a platform by its name, by default this host's."""
    return catalog.platform(name or detect_platform(catalog))


def detect_platform(catalog: Catalog) -> str:
    """Return the name of this host's platform; warn of platforms that cannot be read."""
    problems = Problems()
    platform = platform_here(catalog.detected(problems))
    for problem in problems.noted:
        report(problem._replace(level="warning"))
    return platform


def find_lock(resolved: Resolved, catalog: Catalog) -> tuple[str, Lock] | None:
    """Return the lock of an image with the path of its file, if it has one."""
    file = catalog.lock(file_name(resolved))
    return (short_path(file.path()), open_lock(*file)) if file else None


def _take_pins(resolved: Resolved, catalog: Catalog, word: str) -> Resolved:
    """Return an image with the pins of its lock; raise ``LockError`` if one is missing."""
    profile = f" --profile {resolved.profile.name}" if resolved.profile else ""
    hint = f"lumicontainer lock {word} --platform {resolved.platform.name}{profile}"
    lock_file = find_lock(resolved, catalog)
    if lock_file is None:
        where = display(catalog.locks(resolved.recipe.name) / file_name(resolved))
        raise LockError(Problem("this image has no lock", where, hint=hint))
    path, lock = lock_file
    if wrong := faults(lock, resolved):
        what = "the lock does not pin all of the image"
        raise LockError(Problem(what, path, "\n".join(wrong), hint))
    return apply_lock(resolved, lock)._replace(lock=text_of(lock))


def open_lock(root: Path, name: str) -> Lock:
    """Read the lock ``name`` below ``root``; raise ``InputError`` if it is invalid."""
    return _read_lock(read_text(root, name), root / name)


def write_lock(lock: Lock, path: Path) -> None:
    """Write a lock in one step; raise ``InputError`` if it could not be read back."""
    text = text_of(lock)
    _read_lock(text, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def _read_lock(text: str, path: Path) -> Lock:
    problems = Problems()
    lock = read_lock(text, display(path), problems)
    problems.raise_if_any()
    assert lock is not None
    return lock
