"""Find recipes, layers and platforms: the shipped ones, and a user's own beside them."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lumicontainer.constants import STEM
from lumicontainer.core import model
from lumicontainer.core.apptainer_syntax import fits_a_line
from lumicontainer.core.model.check import FOLDER, IMAGE
from lumicontainer.core.resolve import variants
from lumicontainer.core.resolve.decisions import Materials
from lumicontainer.core.rules.rules import Rule, Vocabulary, read_rules
from lumicontainer.core.schema import check, loading
from lumicontainer.core.schema import platform as platforms
from lumicontainer.errors import InputError, Place, Problem, Problems, did_you_mean, near_hint
from lumicontainer.system.files.recipe_folder import display, files_below, link, read_text
from lumicontainer.system.terminal.masking import holds_secret

RULES = "rules"
"""The file beside the recipes that is not a recipe: combinations that are known to be bad."""
LOCKS = "locks"
"""The folder next to recipes that holds their locks."""
LAYERS = "layers"
_FOLDERS = {"recipe": "", "profile": "profiles/", "layer": f"{LAYERS}/", "lock": f"{LOCKS}/"}
"""By kind: the folder of its documents below one of recipes."""
SCHEMAS = "schemas"
"""The folder beside recipes that holds JSON Schemas; documents name them for editors."""
T = TypeVar("T")


_OTHER_KINDS = {
    "recipe": "name it where a recipe is expected: lumicontainer build {}",
    "profile": "name it by --profile {}",
    "platform": "name it by --platform {}",
    "layer": "name it under 'layers' of a recipe: lumicontainer init writes one to start from",
}
"""By kind: how a document of this kind is named."""


_NO_LAYER = "lumicontainer list names the layers; packages of Python go under 'packages' of one"


class File(NamedTuple):
    """Name a file or folder below a root that a user or this package names."""

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
        # The layers read so far, for later questions about them.
        self._layers: dict[str, model.Layer] = {}

    def names(self, kind: str) -> list[str]:
        """Return the names of all recipes, profiles, layers or platforms, sorted.

        Hidden files do not count: editors and desktops write them beside documents.
        """
        pattern = "*/layer.yaml" if kind == "layer" else "*.yaml"
        paths = (path for each in self._folders(kind) for path in each.path().glob(pattern))
        names = {path.parent.name if kind == "layer" else path.stem for path in paths}
        shown = {name for name in names if not name.startswith(".")}
        return sorted(shown - {RULES} if kind == "recipe" else shown)

    def recipe(self, name: str) -> model.Recipe:
        """Read one recipe; raise ``InputError`` if it is not found or invalid."""
        return _read(self._find("recipe", name), loading.read_recipe, stem=name)

    def platform(self, name: str) -> model.Platform:
        """Read one platform; raise ``InputError`` if it is not found or invalid."""
        return _read(self._find("platform", name), platforms.read_platform, stem=name)

    def profile(self, name: str) -> model.Profile:
        """Read one profile; raise ``InputError`` if it is not found or invalid."""
        return _read(self._find("profile", name), loading.read_profile, stem=name)

    def materials(self, recipe: str, platform: str, profile: str = "") -> Materials:
        """Read all documents of an image; raise ``InputError`` with every problem in them.

        Without the name of a ``profile``, it is the platform's, else the first of the recipe's
        that is for the platform's accelerator.
        """
        document, where, problems = self.recipe(recipe), self.platform(platform), Problems()
        chosen = self._chosen_profile(document, where, profile, problems)
        base = chosen.base if chosen and chosen.base else document.base
        uses, known = (base, *document.layers), self.names("layer")
        for use in (*uses, *(chosen.values if chosen else ())):
            if use.layer not in known:
                why, hint = self.other_kind("layer", use.layer)
                hint = hint or near_hint(use.layer, known) or _NO_LAYER
                problems.add(f"layer '{use.layer}' not found", use.place, why=why, hint=hint)
        layers = self._used_layers([use for use in uses if use.layer in known], problems)
        self._check_variants(uses, layers, where, problems)
        checks = self.checks(problems)
        problems.raise_if_any()
        rules = tuple(self.rules().values())
        return Materials(document, where, uses, layers, known, chosen, checks, rules)

    def _chosen_profile(
        self, recipe: model.Recipe, platform: model.Platform, profile: str, problems: Problems
    ) -> model.Profile | None:
        known, name = self.names("profile"), profile or platform.profile
        place = Place("--profile", line=0) if profile else platform.place
        for each, at in ((name, place), *((text, text.place) for text in recipe.profiles)):
            if each and each not in known:
                problems.unknown("profile", each, at, known)
        names = (each for each in ((name,) if name else recipe.profiles) if each in known)
        fits = (each for each in map(self.profile, names) if _fit(each, platform))
        chosen = next(fits, None)
        if name in known and chosen is None:
            self._note_misfit(self.profile(name), platform, place, problems)
        return chosen

    def _note_misfit(
        self, profile: model.Profile, platform: model.Platform, place: Place, problems: Problems
    ) -> None:
        fitting = [each for each in self.names("profile") if _fit(self.profile(each), platform)]
        what = f"the profile '{profile.name}' is not for the platform '{platform.name}'"
        own, its = profile.accelerator, platform.accelerator
        why = f"it is for the accelerator '{own}', and the platform has '{its}'"
        hint = f"choose one of: {', '.join(fitting)}" if fitting else "choose another --platform"
        problems.add(what, place, why=why, hint=hint)

    def _used_layers(
        self, uses: Sequence[model.LayerUse], problems: Problems
    ) -> dict[str, model.Layer]:
        first: dict[str, Place] = {}
        for use in uses:
            problems.twice(f"duplicate layer '{use.layer}'", use.layer, use.place, first)
        read = {}
        for name in first:
            try:
                read[name] = self.layer(name)
            except InputError as error:
                problems.noted += error.problems
        return read

    def _check_variants(
        self,
        uses: Sequence[model.LayerUse],
        layers: Mapping[str, model.Layer],
        platform: model.Platform,
        problems: Problems,
    ) -> None:
        """Note layers that are for other accelerators, before what others require of them."""
        accelerator = platform.accelerator
        for layer, place in ((layers.get(use.layer), use.place) for use in uses):
            if layer is None or not layer.variants or accelerator in layer.variants:
                continue
            others = map(self.platform, self.names("platform"))
            fitting = [each.name for each in others if each.accelerator in layer.variants]
            variants = ", ".join(sorted(layer.variants))
            what = f"layer '{layer.name}' has no variant for the accelerator '{accelerator}'"
            requires = f"platform '{platform.name}' requires '{accelerator}'"
            why = f"it has variants for {variants}, and {requires}"
            hint = f"add variants.{accelerator} to {layer.place.file}"
            if fitting:
                hint = f"use --platform {' or '.join(fitting)}, or {hint}"
            problems.add(what, place, why=why, hint=hint)

    def lock(self, name: str) -> File | None:
        """Return the lock of this file name, if there is one."""
        return self._lookup("lock", name)

    def locks(self, recipe: str) -> Path:
        """Return the folder for the locks of a recipe: beside it."""
        file = self._lookup("recipe", f"{recipe}.yaml")
        folder = (file.root if file else self.recipes[0]) / LOCKS
        if folder.is_symlink():
            raise link(folder)
        return folder

    def _folders(self, kind: str) -> list[File]:
        if kind == "platform":
            return [File(folder.parent, f"{folder.name}/") for folder in self.envs]
        return [File(root, _FOLDERS[kind]) for root in self.recipes]

    def _lookup(self, kind: str, name: str) -> File | None:
        """Return the first file of this name; reading it finds out what it is."""
        files = (File(root, within + name) for root, within in self._folders(kind))
        return next((file for file in files if os.path.lexists(file.path())), None)

    def _find(self, kind: str, name: str) -> File:
        known = self.names(kind)
        hidden = name.startswith(".") and "/" not in name
        file = self._lookup(kind, f"{name}.yaml") if hidden or name in known else None
        if file is None:
            where = ", ".join(short_path(each.path()) for each in self._folders(kind))
            why, hint = self.other_kind(kind, name)
            hint = hint or did_you_mean(name, known)
            raise InputError(Problem(f"{kind} '{name}' not found", where, why, hint))
        if not re.fullmatch(STEM, name):
            why = "the name is used in paths and shell commands"
            hint = (
                "rename the file: begin with a letter, a digit or '_'; "
                "'-', '.' and '+' are allowed after it"
            )
            where = short_path(file.path())
            raise InputError(Problem(f"invalid name {name!r} of a {kind}", where, why, hint))
        return file

    def other_kind(self, kind: str, name: str) -> tuple[str, str]:
        """Return why a name is not of a kind, and a hint, if it is the name of another kind."""
        for other, hint in _OTHER_KINDS.items():
            if other != kind and name in self.names(other):
                return f"'{name}' is a {other}", hint.format(name)
        return "", ""

    def detected(self, problems: Problems) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the name of each platform, and the paths by which a host is known to be one.

        Leaves out platforms that cannot be read, and notes their problems. For a user's platform
        with the name of a shipped one, the shipped one is read: both describe the same hosts.
        """
        shipped = Catalog((), self.envs[-1:])
        for name in self.names("platform"):
            try:
                yield name, self.platform(name).detect
            except InputError as error:
                problems.noted += error.problems
                if name in shipped.names("platform"):
                    yield name, shipped.platform(name).detect

    def layer(self, name: str) -> model.Layer:
        """Read one layer that is known to be there; raise ``InputError`` if it is invalid."""
        file, problems = self._layer_file(name), Problems()
        folder = file.name.removesuffix("/layer.yaml")
        files = tuple(_layer_files(file.root, folder, problems))
        problems.raise_if_any()
        layer = self._layers[name] = _read(file, loading.read_layer, stem=name, files=files)
        return layer

    def checks(self, problems: Problems) -> model.Checks:
        """Read the checks that every image has; of two files of one name the user's own counts.

        Notes what is wrong in them.
        """
        checks: dict[str, model.Check] = {}
        files: dict[str, model.LayerFile] = {}
        folders: dict[str, str] = {}
        for root in reversed(self.recipes):
            folder = FOLDER.rstrip("/")
            exists = os.path.lexists(root / folder)
            files_there = _layer_files(root, folder, problems) if exists else ()
            renamed = [each._replace(name=FOLDER + each.name) for each in files_there]
            read = check.read_checks(renamed, IMAGE, short_path(root), problems)
            files |= {each.name: each for each in read.files}
            folders |= dict.fromkeys((each.name for each in read.files), short_path(root))
            # The user's own x.sh stands for x.py as well.
            checks |= {each.file.name.rpartition(".")[0]: each for each in read.each}
        twins = Problems()
        check.refuse_twins(checks.values(), folders, twins)
        # Those of one folder are among the problems already.
        problems.noted += [each for each in twins.noted if each not in problems.noted]
        return model.Checks(tuple(files.values()), tuple(checks.values()))

    def rules(self) -> dict[str, Rule]:
        """Read the rules by their ids; of two with one id the user's own stands."""
        rules: dict[str, Rule] = {}
        for number in reversed(range(len(self.recipes))):
            file = File(self.recipes[number], f"{RULES}.yaml")
            if os.path.lexists(file.path()):
                # Shipped rules speak of shipped layers, whatever layers a user puts before these.
                below = Catalog(self.recipes[number:], self.envs) if number else self
                vocabulary = Vocabulary(below.names("layer"), below.parameters)
                rules |= _read(file, read_rules, vocabulary=vocabulary)
        return rules

    def parameters(self, name: str) -> list[str]:
        """Return the names of the parameters that a layer has, sorted; its files are not read."""
        layer = self._layers.get(name)
        if layer is None:
            file = self._layer_file(name)
            layer = self._layers[name] = _read(file, loading.read_layer, stem=name, files=None)
        return sorted(variants.names(layer))

    def choices(self, name: str, parameter: str) -> list[str]:
        """Return the values that a layer's parameter accepts; empty if it accepts any."""
        self.parameters(name)
        return variants.choices(self._layers[name], parameter)

    def _layer_file(self, name: str) -> File:
        file = self._lookup("layer", f"{name}/layer.yaml")
        assert file is not None
        return file


def open_catalog(own: Path | None = None, problems: Problems | None = None) -> Catalog:
    """Return the shipped catalog, with the user's ``own`` recipes and layers before it.

    Raises ``InputError`` for names in the folder that nothing reads, or notes them in ``problems``.
    """
    recipes, envs = [shipped_folder("recipes")], [shipped_folder("envs")]
    if own is not None:
        if not own.is_dir():
            what, hint = "folder of recipes not found", "check --recipes"
            raise InputError(Problem(what, str(own), hint=hint))
        _refuse_folder_of_layers(own)
        misnamed = _misnamed(own)
        if misnamed and problems is None:
            raise InputError(*misnamed)
        if problems is not None:
            problems.noted += misnamed
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


def _refuse_folder_of_layers(own: Path) -> None:
    """Raise ``InputError`` if a folder is a layer, or a folder of layers."""
    whole = own.resolve()
    layer = (own / "layer.yaml").is_file()
    recipes = any(own.glob("*.yaml")) and not layer
    if layer or (any(own.glob("*/layer.yaml")) and not recipes):
        parent = whole.parents[1] if layer else whole.parent
        what = "expected a folder of recipes, got " + ("a layer" if layer else "a folder of layers")
        raise InputError(Problem(what, str(own), hint=f"--recipes {display(parent)}"))


def _misnamed(own: Path) -> list[Problem]:
    problems: dict[str, Problem] = {}
    for pattern, meant in _MISNAMED.items():
        for path in sorted(own.glob(pattern)):
            if path.name.startswith("."):
                continue
            # Files of other programs have this suffix, too: a recipe names its base.
            if pattern == "*.yml" and "\nbase:" not in read_text(own, path.name):
                continue
            file = meant.endswith(".yaml")
            wrong = path if file else own / pattern.partition("/")[0]
            hint = f"rename it to {meant.format(stem=path.stem)}"
            problems[str(wrong)] = Problem("nothing reads this name", display(wrong), hint=hint)
    return list(problems.values())


def short_path(path: Path) -> str:
    """Return a path for messages: of a shipped file, the part from this package on."""
    home = Path(__file__).resolve().parents[2]
    shipped = any(path.is_relative_to(shipped_folder(name)) for name in ("recipes", "envs"))
    return str(path.relative_to(home)) if shipped else display(path)


def _fit(profile: model.Profile, platform: model.Platform) -> bool:
    return profile.accelerator == platform.accelerator


def _read(file: File, reader: Callable[..., T | None], **more: Any) -> T:
    problems = Problems()
    value = reader(read_text(*file), short_path(file.path()), problems, **more)
    problems.raise_if_any()
    assert value is not None
    return value


def _layer_files(root: Path, folder: str, problems: Problems) -> Iterator[model.LayerFile]:
    for name, mode, content in files_below(root, folder, problems):
        if name == "layer.yaml" or "__pycache__" in name:
            continue
        where = short_path(root / folder / name)
        if holds_secret(name, content):
            why = "who reads the image, its recipe or the cache would have a password, token or key"
            hint = "take it out; a script gets it by 'secrets: [ID]' and --secret id=ID,src=FILE"
            problems.add("a file of the layer holds a secret", where, why=why, hint=hint)
        elif not fits_a_line(name):
            why = "a definition cannot hold its name as one line of plain text"
            problems.add("cannot take the file", where, why=why, hint="rename it")
        else:
            yield model.LayerFile(name, mode, content)
