"""Choose the profile with which a recipe is built on a platform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lumicontainer.core.catalog import Catalog
from lumicontainer.core.model import LayerUse, Platform, Profile, Recipe
from lumicontainer.errors import Place, Problems, did_you_mean

OPTION = "--profile"


def choose(
    recipe: Recipe, platform: Platform, catalog: Catalog, problems: Problems, *, wanted: str = ""
) -> Profile | None:
    """Return the profile that is ``wanted``, else the platform's, else the recipe's, if any.

    The recipe's is the first that it names for the platform's accelerator. Notes names that are
    not known, and a profile that is not for the platform.
    """
    named = _known(recipe, catalog, problems)
    if wanted or platform.profile:
        place = Place(OPTION, line=0) if wanted else platform.place
        return _asked(wanted or platform.profile, platform, catalog, problems, place=place)
    for name in named:
        profile = catalog.profile(name)
        if profile.accelerator == platform.accelerator:
            _check_layers(profile, catalog, problems)
            return profile
    return None


def _known(recipe: Recipe, catalog: Catalog, problems: Problems) -> list[str]:
    """Return the profiles that a recipe names, noting those that are not there."""
    there = catalog.profile_names() if recipe.profiles else []
    for name in recipe.profiles:
        if name not in there:
            hint = did_you_mean(name, there)
            problems.add(f"profile '{name}' not found", name.place, hint=hint)
    return [name for name in recipe.profiles if name in there]


def _asked(
    name: str, platform: Platform, catalog: Catalog, problems: Problems, *, place: Place
) -> Profile | None:
    there = catalog.profile_names()
    if name not in there:
        hint = did_you_mean(name, there) or "leave it out"
        problems.add(f"profile '{name}' not found", place, hint=hint)
        return None
    profile = catalog.profile(name)
    if profile.accelerator != platform.accelerator:
        every = [catalog.profile(each) for each in there]
        fitting = [each.name for each in every if each.accelerator == platform.accelerator]
        problems.add(
            f"the profile '{name}' is not for the platform '{platform.name}'",
            place,
            why=f"it is for the accelerator '{profile.accelerator}', and the platform has "
            f"'{platform.accelerator}'",
            hint=f"choose of: {', '.join(fitting)}" if fitting else "choose another --platform",
        )
        return None
    _check_layers(profile, catalog, problems)
    return profile


def _check_layers(profile: Profile, catalog: Catalog, problems: Problems) -> None:
    """Note layers that a profile gives values and that exist nowhere."""
    there = catalog.layer_names()
    for use in profile.values:
        if use.layer not in there:
            hint = did_you_mean(use.layer, there)
            problems.add(f"layer '{use.layer}' not found", use.place, hint=hint)


def uses(recipe: Recipe, profile: Profile | None) -> Sequence[LayerUse]:
    """Return the layers of an image: the base, which a profile may change, and the recipe's."""
    base = profile.base if profile and profile.base else recipe.base
    return (base, *recipe.layers)


def values(profile: Profile | None, layer: str) -> Iterable[LayerUse]:
    """Return what a profile gives a layer."""
    return (use for use in profile.values if use.layer == layer) if profile else ()
