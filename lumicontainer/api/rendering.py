"""Render the document that builds an image with a plain engine."""

from dataclasses import dataclass
from typing import NamedTuple

from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.building.checks import script_syntax
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.render import render as documents
from lumicontainer.core.render.render import FORMATS
from lumicontainer.host import site
from lumicontainer.system.terminal.masking import without_password

DEFINITION, *_ = FORMATS


@dataclass(frozen=True)
class RenderRequest(RecipeRequest):
    """Say which document of a recipe is rendered."""

    format: str = DEFINITION
    """One of ``FORMATS``."""


class Rendered(NamedTuple):
    """Hold a document, and the note about the command that builds it."""

    text: str
    note: str = ""


def render(request: RenderRequest) -> Rendered:
    """Return the definition or the Dockerfile of a recipe."""
    resolved = request.resolve()
    script_syntax.refuse_unparsable(resolved)
    plan = planned(resolved)
    if request.format != DEFINITION:
        return Rendered(documents.render(plan, request.format, mirror=""))
    documents.check_sections(plan)
    text = documents.render(plan, request.format, mirror=_mirror(plan))
    return Rendered(text, _note(resolved.recipe.name, plan))


def _note(recipe: str, plan: Plan) -> str:
    platform = plan.resolved.platform
    if not platform.proot:
        return ""
    command = platform.proot.replace("RECIPE", recipe)
    return f"note: to build {recipe}.def on a compute node of {platform.name}, run\n{command}"


def _mirror(plan: Plan) -> str:
    """Return the mirror of Debian for debootstrap; empty if debootstrap does not make the base."""
    bootstrap = plan.bootstrap
    if plan.resolved.platform.proot or not bootstrap.by_debootstrap:
        return ""
    return without_password(site.require_mirror(site.debian_mirror(bootstrap.release)))
