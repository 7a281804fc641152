"""The recipe rocm in each of its profiles: what goes into the image, and what it needs of LUMI."""

import json
from typing import Any

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.records import record_files
from lumicontainer.core.render.render import render
from lumicontainer.core.resolve.resolve import Resolved, resolve
from lumicontainer.errors import InputError
from lumicontainer.inside.version_range import holds

CATALOG = open_catalog()
LUMI = [("lumi-g", "rocm-6.4.4"), ("lumi-g", "rocm-7.0.2")]
EVERYWHERE = [*LUMI, ("rocm-debian", "")]


def resolved(platform: str = "lumi-g", profile: str = "", *options: str) -> Resolved:
    recipe, where = CATALOG.recipe("rocm"), CATALOG.platform(platform)
    return resolve(recipe, CATALOG, platform=where, profile=profile, options=options)


def values(found: Resolved, layer: str) -> dict[str, Any]:
    return next(each for each in found.layers if each.name == layer).values()


def test_the_profile_inside_the_drivers_window_is_the_first() -> None:
    found = resolved()
    assert found.profile is not None
    assert found.profile.name == "rocm-6.4.4"
    assert values(found, "rocm")["version"] == "6.4.4"


@pytest.mark.parametrize(("platform", "profile"), LUMI)
def test_on_lumi_every_layer_is_there(platform: str, profile: str) -> None:
    found = resolved(platform, profile)
    assert [each.name for each in found.included()] == [
        *("ubuntu", "python", "rocm", "slingshot", "mpich", "rccl-plugin", "rccl-tests", "osu"),
    ]


@pytest.mark.parametrize(("platform", "profile"), LUMI)
def test_the_plugin_fits_the_release_of_rocm(platform: str, profile: str) -> None:
    found = resolved(platform, profile)
    plugin = values(found, "rccl-plugin")
    assert plugin["plugin"] == "aws-ofi-nccl"
    seven = holds(">=7", values(found, "rocm")["version"])
    assert holds(">=1.20" if seven else ">=1.19", plugin["version"])


def test_debian_brings_what_it_has_and_says_what_it_lacks() -> None:
    found = resolved("rocm-debian")
    assert [each.name for each in found.included()] == [
        *("debian", "python", "rocm", "slingshot", "mpich"),
    ]
    left = {each.name: each.omitted for each in found.layers if each.omitted}
    assert set(left) == {"rccl-plugin", "rccl-tests", "osu"}
    assert all(left.values())


@pytest.mark.parametrize(("platform", "profile"), EVERYWHERE)
def test_a_definition_puts_things_right_when_all_is_installed(platform: str, profile: str) -> None:
    plan = make_plan(resolved(platform, profile), ())
    text = render(plan, "def", mirror="http://mirror.site/debian")
    assert text.rindex("bash ./install.sh") < text.index("bash ./finish.sh")


@pytest.mark.parametrize(("platform", "profile"), EVERYWHERE)
def test_a_dockerfile_begins_with_the_profiles_base(platform: str, profile: str) -> None:
    found = resolved(platform, profile)
    text = render(make_plan(found, ()), "dockerfile", mirror="http://mirror.site/debian")
    assert f"ARG BASE={found.bootstrap.image}\n" in text


def test_the_ranks_are_told_of_the_plugin_and_of_libfabric() -> None:
    files = {file.name: file.content for file in record_files(resolved())}
    layers = json.loads(files["platform.json"])["layers"]
    assert layers["aws-ofi-nccl"] == "1.19.0"
    assert layers["libfabric"] == "2.1"


def test_one_word_takes_slingshot_from_the_host() -> None:
    own, host = resolved(), resolved("lumi-g", "", "slingshot.provider=host")
    assert not own.host_libraries()
    assert {each.path for each in host.host_libraries()} == {
        "/opt/cray/libfabric/1.22.0/lib64/libfabric.so.1",
        "/usr/lib64/libcxi.so.1",
    }
    assert {bind.path for bind in host.binds()} - {bind.path for bind in own.binds()} == {
        "/opt/cray"
    }


def test_one_word_takes_mpi_from_the_host() -> None:
    found = resolved("lumi-g", "", "mpich.provider=host")
    assert any(each.path.endswith("/libmpi.so.12") for each in found.host_libraries())
    assert {"/opt/cray", "/run/cxi"} <= {bind.path for bind in found.binds()}


def test_amds_own_image_is_taken_by_its_digest() -> None:
    options = ("ubuntu.version=rocm-6.4.4", "rocm.provider=image")
    found = resolved("lumi-g", "", *options)
    assert found.bootstrap.image.startswith("docker.io/rocm/dev-ubuntu-24.04@sha256:31418ac1")


@pytest.mark.parametrize(
    "option", ["rocm.version=7.1.0", "slingshot.version=13.0.0", "rccl-plugin.version=1.17.2"]
)
def test_a_version_that_nobody_has_tried_is_refused_with_those_that_are_known(option: str) -> None:
    with pytest.raises(InputError) as refused:
        resolved("lumi-g", "", option)
    (problem,) = refused.value.problems
    assert "does not know the version" in problem.what
    assert "its versions are" in problem.why


def test_mpich_needs_rocm_and_slingshot_where_there_are_gpus() -> None:
    cpu = resolved("workstation")
    assert "mpich" in {each.name for each in cpu.included()}
    (mpich,) = [each for each in resolved().layers if each.name == "mpich"]
    assert {"rocm", "slingshot"} <= set(mpich.requires)
    assert {file.name for file in mpich.files} == {"install-rocm.sh"}
