"""Which versions ``extend`` chooses: real uv asks a folder of packages, without a container."""

import os
from pathlib import Path

import pytest

from lumicontainer.extending.container import Container, Mounts
from lumicontainer.extending.facts import Facts, Installed
from lumicontainer.extending.resolution import Question, Refusal, Resolution
from lumicontainer.host.site import Site
from lumicontainer.host.uv import find_uv
from lumicontainer.system import process

from ..packages import write_source, write_wheel

IMAGE = Facts("3.11", {"base": Installed("2.0", (), ("base",), "")})


class Index:
    """A folder of packages, and uv beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "index"
        self.folder.mkdir()
        self.work = folder / "work"
        self.work.mkdir()

    def wheel(self, name: str, version: str, *needs: str) -> None:
        write_wheel(self.folder, name, version, *needs)

    def source(self, name: str, version: str, *needs: str, module: str = "helper") -> None:
        write_source(self.folder, name, version, *needs, module=module)

    def resolution(self, facts: Facts = IMAGE) -> Resolution:
        pip = {"no-index": "1", "find-links": str(self.folder)}
        site = Site("", "", None, {}, (), {}, pip)
        return Resolution(WithoutContainer(self.work / "image.sif", self.work, site), facts)

    def choose(self, *lines: str, facts: Facts = IMAGE) -> dict[str, str]:
        resolution = self.resolution(facts)
        return resolution.versions(resolution.lock(Question(lines)))


class WithoutContainer(Container):
    """Run uv on this host: the tests wrote all code that it runs."""

    def uv(self, mounts: Mounts, *words: str, quiet: bool = True) -> process.Finished:
        program = find_uv()
        assert program is not None
        settings = {"UV_CACHE_DIR": str(mounts.writes / "cache"), "TMPDIR": str(mounts.writes)}
        command = [str(program), *words, "--color", "never", *(["--quiet"] if quiet else [])]
        return process.in_new_session(command, env={**os.environ, **settings})


@pytest.fixture
def index(tmp_path: Path) -> Index:
    found = Index(tmp_path)
    found.wheel("helper", "1.0")
    return found


def test_a_package_that_needs_a_source_keeps_its_newest_version(index: Index) -> None:
    index.wheel("top", "1.0")
    index.wheel("top", "2.0", "only_source")
    index.source("only_source", "1.0", "below")
    index.wheel("below", "1.0")
    assert index.choose("top") == {"top": "2.0", "only-source": "1.0", "below": "1.0"}


def test_no_pre_release_stands_in_for_a_release_that_needs_a_source(index: Index) -> None:
    index.wheel("top", "2.0", "only_source")
    index.source("only_source", "1.0")
    index.wheel("top", "3.0rc1")
    assert index.choose("top>=1") == {"top": "2.0", "only-source": "1.0"}


def test_no_pre_release_stands_in_for_releases_that_do_not_fit_the_image(index: Index) -> None:
    index.wheel("top", "2.0", "base<2")
    index.wheel("top", "0.1.dev0")
    with pytest.raises(Refusal):
        index.choose("top")
    assert index.choose("top>=0.1.dev0,<1") == {"top": "0.1.dev0"}


def test_packages_with_pre_releases_alone_are_allowed_beside_others(index: Index) -> None:
    index.wheel("top", "2.0", "early==1.0b1", "late")
    index.wheel("early", "1.0b1")
    index.wheel("late", "1.0")
    index.wheel("late", "2.0rc1")
    assert index.choose("top", "late") == {"top": "2.0", "early": "1.0b1", "late": "1.0"}


def test_a_source_that_needs_a_package_of_the_image_is_read_with_it(index: Index) -> None:
    index.source("top", "1.0", module="packaging")
    assert index.choose("top") == {"top": "1.0"}


def test_the_newest_version_is_found_without_building(index: Index) -> None:
    index.wheel("top", "1.0")
    index.source("top", "2.0", module="no_such_module")
    index.source("top", "3.0b1", module="no_such_module")
    assert index.resolution().newest(["top"]) == {"top": "2.0"}
