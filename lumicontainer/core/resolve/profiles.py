"""Choose the profile with which a recipe is built on a platform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from lumicontainer.core.model import LayerUse, Platform, Profile, Recipe
from lumicontainer.errors import Place, Problems, did_you_mean

OPTION = "--profile"


class Known(Protocol):
    """Know profiles and layers, as a catalog does."""

    def profile_names(self) -> list[str]:
        """Return the names of all profiles."""

    def profile(self, name: str) -> Profile:
        """Return one of them."""

    def layer_names(self) -> list[str]:
        """Return the names of all layers."""


def choose(
    recipe: Recipe, platform: Platform, known: Known, problems: Problems, *, wanted: str = ""
) -> Profile | None:
    """Return the profile that is ``wanted``, else the platform's, else the recipe's, if any.

    The recipe's is the first that it names for the platform's accelerator. Notes names that are
    not known, and a profile that is not for the platform.
    """
    named = _known(recipe, known, problems)
    if wanted or platform.profile:
        place = Place(OPTION, line=0) if wanted else platform.place
        return _asked(wanted or platform.profile, platform, known, problems, place=place)
    for name in named:
        profile = known.profile(name)
        if profile.accelerator == platform.accelerator:
            _check_layers(profile, known, problems)
            return profile
    return None


def _known(recipe: Recipe, known: Known, problems: Problems) -> list[str]:
    """Return the profiles that a recipe names, noting those that are not there."""
    there = known.profile_names() if recipe.profiles else []
    for name in recipe.profiles:
        if name not in there:
            hint = did_you_mean(name, there)
            problems.add(f"profile '{name}' not found", name.place, hint=hint)
    return [name for name in recipe.profiles if name in there]


def _asked(
    name: str, platform: Platform, known: Known, problems: Problems, *, place: Place
) -> Profile | None:
    there = known.profile_names()
    if name not in there:
        hint = did_you_mean(name, there) or "leave it out"
        problems.add(f"profile '{name}' not found", place, hint=hint)
        return None
    profile = known.profile(name)
    if profile.accelerator != platform.accelerator:
        every = [known.profile(each) for each in there]
        fitting = [each.name for each in every if each.accelerator == platform.accelerator]
        problems.add(
            f"the profile '{name}' is not for the platform '{platform.name}'",
            place,
            why=f"it is for the accelerator '{profile.accelerator}', and the platform has "
            f"'{platform.accelerator}'",
            hint=f"choose of: {', '.join(fitting)}" if fitting else "choose another --platform",
        )
        return None
    _check_layers(profile, known, problems)
    return profile


def _check_layers(profile: Profile, known: Known, problems: Problems) -> None:
    """Note layers that a profile gives values and that exist nowhere."""
    there = known.layer_names()
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
