"""The versions that ``lock`` chooses: uv asks a folder of packages, and builds nothing."""

from pathlib import Path

import pytest

from lumicontainer.errors import LumicontainerError
from lumicontainer.host.uv import find_uv
from lumicontainer.pinning import uv
from lumicontainer.pinning.uv import Resolver
from lumicontainer.pinning.wheels import Query, Target

from ...packages import write_source, write_wheel

pytestmark = pytest.mark.slow

TARGET = Target("3.11", "2.36")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    settings = {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": "/dev/null"}
    for name, value in settings.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


def source_in_the_way(*requirements: str, **packages: str) -> str:
    program, query = find_uv(), Query(requirements, packages)
    assert program is not None
    wheels = uv.wheels(program, TARGET, query)
    return uv.source_in_the_way(program, TARGET, query, wheels)


def test_a_source_that_the_newest_version_needs_is_named(index: Path) -> None:
    write_wheel(index, "top", "1.0")
    write_wheel(index, "top", "2.0", "only_source>=1,<2")
    write_source(index, "only_source", "1.0", module="no_such_module")
    assert source_in_the_way("top") == "only-source"
    assert source_in_the_way("top<2") == ""


def test_a_newest_version_without_a_wheel_is_named(index: Path) -> None:
    write_wheel(index, "top", "1.0", "below")
    write_wheel(index, "below", "1.0")
    write_source(index, "below", "2.0", module="no_such_module")
    assert source_in_the_way("top") == "below"
    assert source_in_the_way("top", "below<2") == ""
    assert source_in_the_way("top", below="1.0") == ""


def test_an_older_version_that_the_image_asks_for_needs_no_source(index: Path) -> None:
    write_wheel(index, "top", "1.0")
    write_wheel(index, "top", "2.0", "base>=3")
    write_wheel(index, "base", "2.0")
    write_wheel(index, "base", "3.0")
    assert source_in_the_way("top", base="2.0") == ""


def test_no_pre_release_stands_in_for_a_release_that_needs_a_source(index: Path) -> None:
    write_wheel(index, "top", "1.0", "only_source")
    write_wheel(index, "top", "1.1rc1")
    write_source(index, "only_source", "1.0", module="no_such_module")
    with pytest.raises(LumicontainerError, match="No matching distribution found for only"):
        Resolver(TARGET, lambda _: None).wheels(Query(["top>=1.0"]))
