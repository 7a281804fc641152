"""An image that was just built is current: what ``verify --recipe`` plans is what ``build`` plans.

A check that says "stale" of every image of a platform is one that nobody heeds.
"""

import itertools
import json
from argparse import ArgumentParser
from pathlib import Path
from typing import NamedTuple

import pytest

from lumicontainer.api import RecipeRequest
from lumicontainer.commands import context
from lumicontainer.constants import HOME
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.lock import apply_lock, file_name
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError
from lumicontainer.host.recipes import open_lock
from lumicontainer.image.inspect import KEY_LABEL
from lumicontainer.inside.verify.outcome import Outcome
from lumicontainer.verify import host_checks

from ..unit.verify.test_inspect import packed

CATALOG = open_catalog()


class Image(NamedTuple):
    """Hold what a user asks ``build`` for."""

    recipe: str
    platform: str
    profile: str = ""
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "-".join(filter(None, (self.recipe, self.platform, self.profile, *self.options)))

    def resolved(self) -> Resolved:
        """Resolve it as ``build`` does."""
        parser = ArgumentParser()
        context.add_options(parser, *context.RECIPE)
        words = [self.recipe, "--platform", self.platform, "--profile", self.profile]
        options = [word for option in self.options for word in ("--set", option)]
        arguments = parser.parse_args([*words, *options])
        return context.request_of(RecipeRequest, arguments).resolve()


def can_be_built(image: Image) -> bool:
    try:
        return bool(image.resolved())
    except InputError:
        return False


KINDS = (CATALOG.names("recipe"), CATALOG.names("platform"), ("", *CATALOG.names("profile")))
EVERY = [
    *filter(can_be_built, itertools.starmap(Image, itertools.product(*KINDS))),
    Image("pytorch", "lumi-g", "rocm-7.0.2", ("rccl-plugin.version=1.19.0",)),
    Image("pytorch", "workstation", "", ("mpich.version=4.3.1",)),
]


def judged(resolved: Resolved, folder: Path) -> Outcome:
    """Judge an image that holds what a build of this recipe records of itself."""
    key = planned(resolved).steps[-1].key
    files = {"resolved.json": json.dumps(resolved_record(resolved)), "checks.json": "[]"}
    metadata = {"data": {"attributes": {"labels": {KEY_LABEL: key}}}}
    image = packed(folder, {f"{HOME[1:]}/{name}": text for name, text in files.items()}, metadata)
    return host_checks.current(host_checks.Request(image, CATALOG, resolved.recipe.name))


def test_the_platforms_with_rules_about_drivers_are_among_them() -> None:
    with_drivers = {each.platform for each in EVERY if each.resolved().drivers}
    assert with_drivers >= {"lumi-g", "rocm-debian"}


@pytest.mark.parametrize("image", EVERY, ids=str)
def test_an_image_that_was_just_built_is_what_its_recipe_makes(
    image: Image, tmp_path: Path
) -> None:
    came = judged(image.resolved(), tmp_path)
    assert (came.state, came.reason) == ("passed", "")


def test_an_image_that_was_built_by_its_lock_is_current_too(tmp_path: Path) -> None:
    resolved = Image("pytorch-deepspeed", "workstation").resolved()
    path = CATALOG.lock(file_name(resolved))
    assert path is not None
    came = judged(apply_lock(resolved, open_lock(*path)), tmp_path)
    assert (came.state, came.reason) == ("passed", "")
    assert "locked" in came.output
