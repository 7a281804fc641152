"""The recipe rocm in each of its profiles: what goes into the image, and what it needs of LUMI."""

from typing import Any

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.core.rules.rules import ERROR, HOLDS
from lumicontainer.errors import InputError

CATALOG = open_catalog()


def resolved(platform: str = "lumi-g", profile: str = "", *options: str) -> Resolved:
    return resolve(CATALOG.materials("rocm", platform, profile), options)


def values(found: Resolved, layer: str) -> dict[str, Any]:
    return next(each for each in found.layers if each.name == layer).values()


RECIPES = ("rocm", "pytorch", "pytorch-deepspeed", "megatron-deepspeed")


@pytest.mark.parametrize("recipe", RECIPES)
def test_debians_rocm_is_built_with_the_layers_and_scripts_of_lumi_g(recipe: str) -> None:
    lumi, debian = (
        resolve(CATALOG.materials(recipe, platform, "")) for platform in ("lumi-g", "rocm-debian")
    )
    assert [
        each for each in debian.findings if (each.state, each.rule.level) == (HOLDS, ERROR)
    ] == []
    scripts = {each.name: set(each.files) for each in lumi.included()}
    own = {each.name: set(each.files) for each in debian.included()}
    gone = {each.name: each.omitted for each in debian.layers if each.name in scripts.keys() - own}
    assert gone.keys() == ({"osu"} if recipe == "rocm" else set())
    assert all(gone.values())
    assert own.keys() - scripts.keys() <= {"debian", "rccl"}
    assert {name: own[name] for name in scripts.keys() & own} == {
        name: scripts[name] for name in scripts.keys() & own
    }


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
