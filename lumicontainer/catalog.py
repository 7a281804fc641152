"""Find recipes, layers and platforms: the shipped ones, and a user's own beside them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from lumicontainer import checkfile, documents, load, parts, platforms
from lumicontainer.document import Problems
from lumicontainer.errors import InputError, Problem, did_you_mean
from lumicontainer.hazards import fits_a_line
from lumicontainer.model import Check, Checks, Layer, LayerFile, Platform, Profile, Recipe
from lumicontainer.names import STEM
from lumicontainer.rules import Rule, Vocabulary, read_rules

MAX_FILE_BYTES = 1 << 20
_LINK = "it is a symbolic link, which may lead out of the folder"
RULES = "rules"
"""The file beside the recipes that is none: combinations that are known to be bad."""
LOCKS = "locks"
"""The folder beside recipes that holds what they were locked to."""
T = TypeVar("T")


def shipped_folder(name: str) -> Path:
    """Return the folder of shipped data called ``name``: in the wheel, or in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


class Catalog:
    """Know where recipes lie; a user's folder stands before the shipped one."""

    def __init__(self, recipes: tuple[Path, ...], envs: tuple[Path, ...]) -> None:
        self.recipes = recipes
        self.envs = envs
        # Those that were read, for what is asked of them afterwards.
        self._layers: dict[str, Layer] = {}

    def recipe_names(self) -> list[str]:
        """Return the names of all recipes, sorted."""
        return [name for name in _stems(self.recipes) if name != RULES]

    def platform_names(self) -> list[str]:
        """Return the names of all platforms, sorted."""
        return _stems(self.envs)

    def profile_names(self) -> list[str]:
        """Return the names of all profiles, sorted."""
        return _stems(self._profiles())

    def layer_names(self) -> list[str]:
        """Return the names of all layers, sorted."""
        folders = (path for root in self.recipes for path in (root / "layers").glob("*/layer.yaml"))
        return sorted({path.parent.name for path in folders})

    def recipe(self, name: str) -> Recipe:
        """Read one recipe; raise ``InputError`` where there is none or it is wrong."""
        path = _find(name, "recipe", self.recipes, f"{name}.yaml", self.recipe_names())
        return _read(path, lambda text, file, p: load.read_recipe(text, file, p, stem=name))

    def platform(self, name: str) -> Platform:
        """Read one platform; raise ``InputError`` where there is none or it is wrong."""
        path = _find(name, "platform", self.envs, f"{name}.yaml", self.platform_names())
        return _read(path, lambda text, file, p: platforms.read_platform(text, file, p, stem=name))

    def profile(self, name: str) -> Profile:
        """Read one profile; raise ``InputError`` where there is none or it is wrong."""
        path = _find(name, "profile", self._profiles(), f"{name}.yaml", self.profile_names())
        return _read(path, lambda text, file, p: load.read_profile(text, file, p, stem=name))

    def lock(self, name: str) -> Path | None:
        """Return the lock of this file name, if there is one."""
        return _lookup(tuple(root / LOCKS for root in self.recipes), name)

    def locks(self, recipe: str) -> Path:
        """Return the folder for the locks of a recipe: beside it."""
        found = (root for root in self.recipes if (root / f"{recipe}.yaml").is_file())
        return next(found, self.recipes[0]) / LOCKS

    def _profiles(self) -> tuple[Path, ...]:
        return tuple(root / "profiles" for root in self.recipes)

    def detected(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the name of each platform and the paths by which a host is known to be one."""
        for name in self.platform_names():
            path = _lookup(self.envs, f"{name}.yaml")
            assert path is not None
            yield name, _read(path, platforms.read_detect)

    def layer(self, name: str, problems: Problems) -> Layer | None:
        """Read one layer that is known to be there, noting what is wrong in it."""
        path = self._layer_path(name)
        files = tuple(_layer_files(path.parent, problems))
        text = read_text(path)
        layer = load.read_layer(text, display(path), problems, stem=name, files=files)
        if layer is not None:
            self._layers[name] = layer
        return layer

    def checks(self, problems: Problems) -> Checks:
        """Read the checks that every image has; of two files with one name the user's own stands.

        Notes what is wrong in them.
        """
        checks: dict[str, Check] = {}
        files: dict[str, LayerFile] = {}
        for root in reversed(self.recipes):
            folder = root / checkfile.FOLDER
            files_there = _layer_files(folder, problems) if folder.is_dir() else ()
            found = [each._replace(name=checkfile.FOLDER + each.name) for each in files_there]
            read = checkfile.read_checks(found, checkfile.IMAGE, display(root), problems)
            files |= {each.name: each for each in read.files}
            # The user's own x.sh stands for x.py as well.
            checks |= {each.file.name.rpartition(".")[0]: each for each in read.each}
        return Checks(tuple(files.values()), tuple(checks.values()))

    def rules(self) -> dict[str, Rule]:
        """Read the rules by their ids; of two with one id the user's own stands."""
        rules: dict[str, Rule] = {}
        for number in reversed(range(len(self.recipes))):
            path = self.recipes[number] / f"{RULES}.yaml"
            if path.is_file():
                # Shipped rules speak of shipped layers, whatever layers a user puts before these.
                below = Catalog(self.recipes[number:], self.envs) if number else self
                vocabulary = Vocabulary(below.layer_names(), below.parameters)
                rules |= _read(path, partial(read_rules, vocabulary=vocabulary))
        return rules

    def parameters(self, name: str) -> list[str]:
        """Return the names of the parameters that a layer has, sorted; its files are not read."""
        layer = self._layers.get(name)
        if layer is None:
            read = partial(load.read_layer, stem=name, files=None)
            layer = self._layers[name] = _read(self._layer_path(name), read)
        return sorted(parts.names(layer))

    def _layer_path(self, name: str) -> Path:
        path = _lookup(self.recipes, f"layers/{name}/layer.yaml")
        assert path is not None
        return path


def open_catalog(own: Path | None = None) -> Catalog:
    """Return the shipped catalog, with the user's ``own`` recipes and layers before it."""
    documents.recall()
    recipes, envs = [shipped_folder("recipes")], [shipped_folder("envs")]
    if own is not None:
        if not own.is_dir():
            raise InputError(
                Problem("there is no such folder of recipes", str(own), mend="check --recipes")
            )
        recipes.insert(0, own)
        envs.insert(0, own / "envs")
    return Catalog(tuple(recipes), tuple(envs))


def display(path: Path) -> str:
    """Return ``path`` as a user would open it from the present folder, on one printable line."""
    relative = os.path.relpath(path)
    shown = relative if not relative.startswith("..") else str(path)
    return shown if shown.isprintable() else ascii(shown)


def _stems(roots: tuple[Path, ...]) -> list[str]:
    return sorted({path.stem for root in roots for path in root.glob("*.yaml")})


def _lookup(roots: tuple[Path, ...], relative: str) -> Path | None:
    return next((root / relative for root in roots if (root / relative).is_file()), None)


def _find(name: str, what: str, roots: tuple[Path, ...], relative: str, known: list[str]) -> Path:
    path = _lookup(roots, relative) if name in known else None
    if path is None:
        where = ", ".join(display(root) for root in roots)
        raise InputError(
            Problem(f"there is no {what} '{name}'", where, mend=did_you_mean(name, known))
        )
    if not re.fullmatch(STEM, name):
        raise InputError(
            Problem(
                f"no {what} can be called {name!r}",
                display(path),
                why="the name stands in comments, paths and lines for the shell",
                mend="rename the file: letters, digits and '_' first, then also '-', '.', '+'",
            )
        )
    return path


def read_text(path: Path) -> str:
    """Return the text of a file; raise ``InputError`` where it is none that can be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            Problem("the file is not UTF-8 text", display(path), str(error), "save it as UTF-8")
        ) from error
    except OSError as error:
        raise InputError(
            Problem("the file cannot be read", display(path), error.strerror or "")
        ) from error


def _read(path: Path, reader: Callable[[str, str, Problems], T | None]) -> T:
    problems = Problems()
    value = reader(read_text(path), display(path), problems)
    problems.raise_if_any()
    assert value is not None
    return value


def _layer_files(folder: Path, problems: Problems) -> Iterator[LayerFile]:
    """Yield the files of a layer's folder, refusing what could bring in bytes from elsewhere."""
    if folder.is_symlink():
        problems.add("this folder is not taken", display(folder), why=_LINK, mend="copy it in")
        return
    for name, entry in _below(folder):
        if name == "layer.yaml" or "__pycache__" in name:
            continue
        path = Path(entry.path)
        state = entry.stat(follow_symlinks=False)
        what = "this file of a layer is not taken"
        if reason := _refusal(state):
            problems.add(what, display(path), why=reason, mend="copy it in")
            continue
        if not fits_a_line(name):
            why = "a definition cannot hold its name as one line of plain text"
            problems.add(what, display(path), why=why, mend="rename it")
            continue
        mode = 0o755 if state.st_mode & stat.S_IXUSR else 0o644
        yield LayerFile(name, mode, path.read_bytes())


def _below(folder: str | Path, within: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all that is below a folder but folders, by its name there, sorted.

    Pathlib takes three times as long, and is silent of a folder that cannot be read.
    """
    with os.scandir(folder) as there:
        entries = sorted(there, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{within}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, f"{name}/")
        else:
            yield name, entry


def _refusal(state: os.stat_result) -> str:
    if stat.S_ISLNK(state.st_mode):
        return _LINK
    if not stat.S_ISREG(state.st_mode):
        return "it is not a regular file"
    if state.st_size > MAX_FILE_BYTES:
        return f"it is larger than {MAX_FILE_BYTES >> 20} MiB; large inputs are downloaded"
    return ""
