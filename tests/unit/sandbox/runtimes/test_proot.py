"""A definition for a platform whose users have no user namespaces is one that PRoot builds."""

import re
from collections.abc import Callable

import pytest

from lumicontainer.core.apptainer_syntax import hazard
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.render.render import render
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve

from ....conftest import ROOT

CATALOG = open_catalog()
LUMI = CATALOG.platform("lumi-g")
IMAGES = [
    (name, each) for name in CATALOG.names("recipe") for each in CATALOG.recipe(name).profiles
]
MADE = (
    "summary: the base\nbootstrap:\n  cpu: {agent: debootstrap, release: bookworm,"
    " docker_image: 'debian:bookworm', include: [ca-certificates, python3]}\n"
)


@pytest.fixture
def made(resolved: Callable[..., Resolved]) -> Plan:
    """Plan an image on a base that debootstrap makes elsewhere."""
    resolution = resolved({"layers/tiny/layer.yaml": MADE})
    return make_plan(
        resolution._replace(platform=resolution.platform._replace(proot=LUMI.proot)), ()
    )


def sections(text: str) -> list[str]:
    return re.findall(r"(?m)^%(\w+)", text)


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "profile"), IMAGES)
def test_what_is_shipped_for_lumi_asks_nothing_of_root(recipe: str, profile: str) -> None:
    resolution = resolve(CATALOG.materials(recipe, "lumi-g", profile))
    text = render(make_plan(resolution, ()), "def", mirror="")
    header = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert header[0] == "Bootstrap: docker"
    assert set(sections(text)) == {"labels", "help", "environment", "post", "runscript"}


def test_a_base_that_debootstrap_makes_is_pulled_there(made: Plan) -> None:
    text = render(made, "def", mirror="")
    assert "Bootstrap: docker\nFrom: debian:bookworm\n" in text
    assert "debootstrap" not in text.partition("%post")[0]
    installed = text.index("install --no-install-recommends ca-certificates python3\n")
    assert installed < text.index("# layer: greet")


def test_users_can_be_added_from_the_first_step_to_the_last(made: Plan) -> None:
    _, *posts = render(made, "def", mirror="").split("%post -c /bin/bash\n")
    assert "mv /.etc /etc\n" in posts[0]
    assert 'rm -rf "$aside"' in posts[-1].partition("%runscript")[0]
    assert not [post for post in posts[1:-1] if "$aside" in post]


def test_elsewhere_the_definition_is_as_it_was(made: Plan) -> None:
    platform = made.resolved.platform._replace(proot="")
    elsewhere = made._replace(resolved=made.resolved._replace(platform=platform))
    text = render(elsewhere, "def", mirror="http://mirror.site/debian")
    assert "Bootstrap: debootstrap\n" in text
    assert "$aside" not in text
    assert len(sections(text)) == len(sections(render(made, "def", mirror=""))) - 3


@pytest.mark.parametrize("name", ["etc-begin.sh", "etc-end.sh"])
def test_what_stands_around_the_steps_can_stand_in_a_definition(name: str) -> None:
    assert not hazard((ROOT / "lumicontainer/step" / name).read_text())


def test_the_line_that_builds_it_names_the_recipe_and_loads_no_binds() -> None:
    line = LUMI.proot.replace("RECIPE", "rocm")
    assert line.endswith("singularity build rocm.sif rocm.def")
    assert "-u SINGULARITY_BIND " in line
    assert "-u SINGULARITY_BINDPATH " in line
