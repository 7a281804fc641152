"""Say how users of a platform build a definition with PRoot."""

from __future__ import annotations

from lumicontainer.core.model import Platform

_NAME = "RECIPE"


def command(platform: Platform, recipe: str) -> str:
    """Return the command line by which users of a platform build the definition of a recipe."""
    return platform.proot.replace(_NAME, recipe)
