"""The workstation and LUMI-G have the same Python packages, but for those that the manual names."""

import re

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model.source import UrlSource
from lumicontainer.core.model.wheel_names import normal, wheel_package
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.resolve import resolve

from ..conftest import ROOT

CATALOG = open_catalog()
BOTH = ("pytorch", "pytorch-deepspeed")
PROFILES = ("rocm-6.4.4", "rocm-7.0.2", "rocm-7.0.2-libfabric-2.6")

PROGRAMS = {"mpich"}
"""Packages that hold programs and no module; LUMI-G's are compiled."""


def packages(recipe: str, platform: str, profile: str = "") -> set[str]:
    """Return the names of an image's Python packages: by pip, from sources, as wheels."""
    resolved = resolve(CATALOG.materials(recipe, platform, profile))
    rows = resolved_record(resolved)["layers"].values()
    named = [line for row in rows for line in row.get("packages", {}).get("python", ())]
    names = {normal(re.split(r"[\[=<>]", line)[0]) for line in named}
    sources = [source for layer in resolved.included() for source in layer.content.sources]
    wheels = [each.file for each in sources if isinstance(each, UrlSource)]
    return names | {normal(name) for file in wheels for name, _ in wheel_package(file)}


def named_in_manual() -> set[str]:
    table = (ROOT / "docs/recipes.md").read_text().partition("| only on `lumi-g` |")[2]
    rows = [row.split("|")[1] for row in table.partition("\n\n")[0].splitlines()[2:]]
    return {normal(name) for row in rows for name in re.findall("`(.+?)`", row)}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("recipe", BOTH)
def test_a_platform_lacks_no_package_of_the_other_that_the_manual_does_not_name(
    recipe: str, profile: str
) -> None:
    here, on_lumi = packages(recipe, "workstation"), packages(recipe, "lumi-g", profile)
    assert {"torch", "numpy"} <= here & on_lumi
    assert on_lumi - here <= named_in_manual()
    assert here - on_lumi <= PROGRAMS
