"""Differences between two images, recipes, locks or profiles."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.recipes import locate_recipe, open_lock, resolve_recipe
from lumicontainer.image import records
from lumicontainer.trust import differences
from lumicontainer.trust.differences import FILE, LAYERS, RULES, Differences, Side, compare_sides
from lumicontainer.trust.statement import read_provenance

_LOCK = ".lock.yaml"
IMAGE, LOCK, PROFILE, RECIPE = "image", "lock", "profile", "recipe"


@dataclass(frozen=True)
class DiffRequest:
    """Name what is compared: two images, recipes, locks or profiles.

    A recipe can be named with its profile, as RECIPE@PROFILE. An image can be compared with a
    recipe too.
    """

    before: str
    after: str
    platform: str | None = None
    """Where images of recipes run; by default the platform of this host."""
    recipes: Path | None = None


def find_differences(request: DiffRequest) -> Differences:
    """Return what changes from ``before`` to ``after``; nothing is built, and no content is read.

    Raises ``InputError`` if one of them is not found, or if they cannot be compared.
    """
    words = (request.before, request.after)
    catalog = open_catalog(request.recipes)
    kinds = [_kind(word, catalog) for word in words]
    if len({*kinds}) > 1 and {*kinds} != {IMAGE, RECIPE}:
        what = f"cannot compare a {kinds[0]} with a {kinds[1]}"
        hint = "name two images, two recipes, two locks or two profiles"
        raise InputError(Problem(what, " ".join(words), hint=hint))
    images = kinds == [IMAGE, IMAGE]
    sizes = images and all(read_provenance(Path(word)) for word in words)
    readers: Mapping[str, Callable[[str], Side]] = {
        IMAGE: lambda word: _image(Path(word), installed=images, sizes=sizes),
        LOCK: lambda word: _lock(Path(word)),
        PROFILE: lambda word: differences.side_of_profile(catalog.profile(word)),
        RECIPE: lambda word: _recipe(word, request),
    }
    one, other = (readers[kind](word) for kind, word in zip(kinds, words, strict=True))
    return compare_sides(one, other)


def _kind(word: str, catalog: Catalog) -> str:
    if word.endswith(_LOCK):
        return LOCK
    is_file = Path(word).is_file() and not word.endswith((".yaml", ".yml"))
    if is_file or word.endswith(".sif"):
        return IMAGE
    is_profile = word in catalog.names(PROFILE) and word not in catalog.names(RECIPE)
    return PROFILE if is_profile else RECIPE


def _image(image: Path, *, installed: bool, sizes: bool) -> Side:
    record, provenance = records.resolved(image), read_provenance(image)
    sections = differences.sections_of_record(record)
    if installed:
        sections |= differences.installed_packages(records.packages(image))
        sections[FILE] = {"bytes": image.stat().st_size}
    else:
        sections |= differences.stated_packages(record)
    if provenance:
        sections[RULES] = provenance.rules
    if provenance and sizes:
        sections[LAYERS] = differences.layers_with_sizes(sections[LAYERS], provenance)
    return Side(str(image), sections)


def _recipe(word: str, request: DiffRequest) -> Side:
    name, _, profile = word.partition("@")
    folder = locate_recipe(name, request.recipes)[1]
    resolved = resolve_recipe(name, platform=request.platform, profile=profile, recipes=folder)
    record = resolved_record(resolved)
    sections = {
        **differences.sections_of_record(record),
        **differences.stated_packages(record),
        RULES: differences.rules_of(resolved),
    }
    return Side(word, sections)


def _lock(path: Path) -> Side:
    if not path.is_file():
        hint = "lumicontainer lock writes locks"
        raise InputError(Problem("lock not found", str(path), hint=hint))
    return differences.side_of_lock(str(path), open_lock(path.parent, path.name))
