"""Name a recipe with everything that decides its image, as the requests of several verbs do."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.recipes import locate_recipe
from lumicontainer.host.recipes import resolve_recipe as resolve


@dataclass(frozen=True)
class RecipeRequest:
    """Hold the arguments that decide every value of an image."""

    recipe: str | Path | Resolved
    """Its name, its file, or what ``api.resolve`` returned, which has all other values."""
    platform: str | None = None
    """Where the image runs; by default the platform of this host."""
    profile: str = ""
    values: Sequence[str] = ()
    """Texts ``layer.parameter=value``, which ``--set`` takes."""
    recipes: Path | None = None
    """A folder of your own, searched first."""

    def resolve(self, *, locked: bool = False) -> Resolved:
        """Read all documents and decide every value; ``locked`` takes the pins of the lock."""
        if isinstance(self.recipe, Resolved):
            if self.platform or self.profile or self.values or locked:
                what = f"all values of '{self.recipe.recipe.name}' are decided"
                hint = "give platform, profile, values and locked to api.resolve"
                raise InputError(Problem(what, hint=hint))
            return self.recipe
        return resolve(
            self.recipe,
            platform=self.platform,
            profile=self.profile,
            values=self.values,
            recipes=self.recipes,
            locked=locked,
        )

    def open_catalog(self) -> Catalog:
        """Open the catalog that has the recipe."""
        if isinstance(self.recipe, Resolved):
            return open_catalog(self.recipes)
        return open_catalog(locate_recipe(str(self.recipe), self.recipes)[1])
