"""Find recipes, layers and platforms: the shipped ones, and a user's own beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from lumicontainer.core.apptainer_syntax import fits_a_line
from lumicontainer.core.model import Check, Checks, Layer, LayerFile, Platform, Profile, Recipe
from lumicontainer.core.rules.rules import Rule, Vocabulary, read_rules
from lumicontainer.core.schema import check, loading, variants
from lumicontainer.core.schema import platform as platforms
from lumicontainer.core.yaml.validators import STEM
from lumicontainer.errors import InputError, Problem, Problems, did_you_mean
from lumicontainer.system.files.recipe_folder import display, files_below, link, read_text

RULES = "rules"
"""The file beside the recipes that is none: combinations that are known to be bad."""
LOCKS = "locks"
"""The folder beside recipes that holds what they were locked to."""
LAYERS = "layers"
SCHEMAS = "schemas"
"""The folder beside recipes that holds JSON Schemas; documents name them for editors."""
T = TypeVar("T")
Folders: TypeAlias = Sequence[tuple[Path, str]]
"""Folders, each as the root that a user or this package names, and the way below it."""


class File(NamedTuple):
    """Name a file below such a root."""

    root: Path
    name: str

    def path(self) -> Path:
        """Return its path."""
        return self.root / self.name


def shipped_folder(name: str) -> Path:
    """Return the folder of shipped data called ``name``: in the wheel, or in a checkout."""
    package = Path(__file__).resolve().parents[1]
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
        return [name for name in _stems(self._recipes()) if name != RULES]

    def platform_names(self) -> list[str]:
        """Return the names of all platforms, sorted."""
        return _stems(self._platforms())

    def profile_names(self) -> list[str]:
        """Return the names of all profiles, sorted."""
        return _stems(self._profiles())

    def layer_names(self) -> list[str]:
        """Return the names of all layers, sorted."""
        folders = (path for root in self.recipes for path in (root / LAYERS).glob("*/layer.yaml"))
        return sorted({path.parent.name for path in folders})

    def recipe(self, name: str) -> Recipe:
        """Read one recipe; raise ``InputError`` where there is none or it is wrong."""
        file = _find(name, "recipe", self._recipes(), self.recipe_names())
        return _read(file, partial(loading.read_recipe, stem=name))

    def platform(self, name: str) -> Platform:
        """Read one platform; raise ``InputError`` where there is none or it is wrong."""
        file = _find(name, "platform", self._platforms(), self.platform_names())
        return _read(file, partial(platforms.read_platform, stem=name))

    def profile(self, name: str) -> Profile:
        """Read one profile; raise ``InputError`` where there is none or it is wrong."""
        file = _find(name, "profile", self._profiles(), self.profile_names())
        return _read(file, partial(loading.read_profile, stem=name))

    def lock(self, name: str) -> File | None:
        """Return the lock of this file name, if there is one."""
        return _lookup([(root, f"{LOCKS}/") for root in self.recipes], name)

    def locks(self, recipe: str) -> Path:
        """Return the folder for the locks of a recipe: beside it."""
        found = _lookup(self._recipes(), f"{recipe}.yaml")
        root = found.root if found else self.recipes[0]
        if (root / LOCKS).is_symlink():
            raise link(root / LOCKS)
        return root / LOCKS

    def _recipes(self) -> Folders:
        return [(root, "") for root in self.recipes]

    def _profiles(self) -> Folders:
        return [(root, "profiles/") for root in self.recipes]

    def _platforms(self) -> Folders:
        return [(folder.parent, f"{folder.name}/") for folder in self.envs]

    def detected(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the name of each platform and the paths by which a host is known to be one."""
        for name in self.platform_names():
            file = _lookup(self._platforms(), f"{name}.yaml")
            assert file is not None
            yield name, _read(file, platforms.read_detect)

    def layer(self, name: str, problems: Problems) -> Layer | None:
        """Read one layer that is known to be there, noting what is wrong in it."""
        file = self._layer_file(name)
        folder = file.name.removesuffix("/layer.yaml")
        before = len(problems.found)
        files = tuple(_layer_files(file.root, folder, problems))
        if len(problems.found) > before:
            return None
        text = read_text(*file)
        layer = loading.read_layer(text, display(file.path()), problems, stem=name, files=files)
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
            folder = check.FOLDER.rstrip("/")
            there = os.path.lexists(root / folder)
            files_there = _layer_files(root, folder, problems) if there else ()
            found = [each._replace(name=check.FOLDER + each.name) for each in files_there]
            read = check.read_checks(found, check.IMAGE, display(root), problems)
            files |= {each.name: each for each in read.files}
            # The user's own x.sh stands for x.py as well.
            checks |= {each.file.name.rpartition(".")[0]: each for each in read.each}
        return Checks(tuple(files.values()), tuple(checks.values()))

    def rules(self) -> dict[str, Rule]:
        """Read the rules by their ids; of two with one id the user's own stands."""
        rules: dict[str, Rule] = {}
        for number in reversed(range(len(self.recipes))):
            file = _lookup([(self.recipes[number], "")], f"{RULES}.yaml")
            if file is not None:
                # Shipped rules speak of shipped layers, whatever layers a user puts before these.
                below = Catalog(self.recipes[number:], self.envs) if number else self
                vocabulary = Vocabulary(below.layer_names(), below.parameters)
                rules |= _read(file, partial(read_rules, vocabulary=vocabulary))
        return rules

    def parameters(self, name: str) -> list[str]:
        """Return the names of the parameters that a layer has, sorted; its files are not read."""
        layer = self._layers.get(name)
        if layer is None:
            read = partial(loading.read_layer, stem=name, files=None)
            layer = self._layers[name] = _read(self._layer_file(name), read)
        return sorted(variants.names(layer))

    def choices(self, name: str, parameter: str) -> list[str]:
        """Return the values that a layer's parameter can be chosen of; none where it takes any."""
        self.parameters(name)
        return variants.choices(self._layers[name], parameter)

    def _layer_file(self, name: str) -> File:
        file = _lookup([(root, f"{LAYERS}/") for root in self.recipes], f"{name}/layer.yaml")
        assert file is not None
        return file


def open_catalog(own: Path | None = None) -> Catalog:
    """Return the shipped catalog, with the user's ``own`` recipes and layers before it."""
    recipes, envs = [shipped_folder("recipes")], [shipped_folder("envs")]
    if own is not None:
        if not own.is_dir():
            raise InputError(
                Problem("there is no such folder of recipes", str(own), hint="check --recipes")
            )
        _refuse_misnamed(own)
        recipes.insert(0, own)
        envs.insert(0, own / "envs")
    return Catalog(tuple(recipes), tuple(envs))


_MISNAMED = {
    "*.yml": "{stem}.yaml",
    f"{LAYERS}/*/layer.yml": "layer.yaml",
    "layer/*/layer.yaml": LAYERS,
    "profile/*.yaml": "profiles",
    "env/*.yaml": "envs",
    "platforms/*.yaml": "envs",
    "rule.yaml": f"{RULES}.yaml",
    "lock/*.lock.yaml": LOCKS,
}
"""Names that nobody reads, with the one that is meant: a file's, or its folder's."""


def _refuse_misnamed(own: Path) -> None:
    """Raise ``InputError`` for files that nothing would read though they are meant to be read."""
    problems: dict[str, Problem] = {}
    for pattern, meant in _MISNAMED.items():
        for path in sorted(own.glob(pattern)):
            # Files of other programs have this suffix, too: a recipe names its base.
            if pattern == "*.yml" and "\nbase:" not in read_text(own, path.name):
                continue
            file = meant.endswith(".yaml")
            wrong = path if file else own / pattern.partition("/")[0]
            hint = f"rename it to {meant.format(stem=path.stem)}"
            problems[str(wrong)] = Problem("nothing reads this name", display(wrong), hint=hint)
    if problems:
        raise InputError(*problems.values())


def _stems(folders: Folders) -> list[str]:
    return sorted(
        {path.stem for root, within in folders for path in (root / within).glob("*.yaml")}
    )


def _lookup(folders: Folders, name: str) -> File | None:
    """Return the first file of this name; what it is, is found out where it is read."""
    found = (File(root, f"{within}{name}") for root, within in folders)
    return next((file for file in found if os.path.lexists(file.path())), None)


def _find(name: str, what: str, folders: Folders, known: list[str]) -> File:
    file = _lookup(folders, f"{name}.yaml") if name in known else None
    if file is None:
        where = ", ".join(display(root / within) for root, within in folders)
        hint = did_you_mean(name, known)
        raise InputError(Problem(f"{what} '{name}' not found", where, hint=hint))
    if not re.fullmatch(STEM, name):
        why = "the name stands in comments, paths and lines for the shell"
        hint = "rename the file: letters, digits and '_' first, then also '-', '.', '+'"
        where = display(file.path())
        raise InputError(Problem(f"no {what} can be called {name!r}", where, why, hint))
    return file


def _read(file: File, reader: Callable[[str, str, Problems], T | None]) -> T:
    problems = Problems()
    value = reader(read_text(*file), display(file.path()), problems)
    problems.raise_if_any()
    assert value is not None
    return value


def _layer_files(root: Path, folder: str, problems: Problems) -> Iterator[LayerFile]:
    """Yield the files of a layer's folder."""
    for name, mode, content in files_below(root, folder, problems):
        if name == "layer.yaml" or "__pycache__" in name:
            continue
        if fits_a_line(name):
            yield LayerFile(name, mode, content)
            continue
        why = "a definition cannot hold its name as one line of plain text"
        where = display(root / folder / name)
        problems.add("cannot take the file", where, why=why, hint="rename it")
