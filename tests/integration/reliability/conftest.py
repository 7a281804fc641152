"""One base for all tests of reliability, and a separate place for each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ..conftest import lumicontainer
from .chain import Build, Place, copy, write_chain


@pytest.fixture(scope="session")
def base(recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, list[Build]]:
    """Build two recipes with the same base at once, one with --rebuild, in an empty cache."""
    root = tmp_path_factory.mktemp("base")
    words = ("--recipes", recipes, "--no-verify", "--output", root / "base.sif")
    lumicontainer("build", "small", *words, code=0)
    place = Place(root, write_chain(root / "recipes", root / "base.sif"))
    for folder in (place.temporary, place.image.parent):
        folder.mkdir()
    other = place.start("--rebuild", output=place.image.with_name("other.sif"), recipe="other")
    builds = [place.start(), other]
    for build in builds:
        assert build.wait(600) == 0, build.stderr[-3000:]
    return place, builds


@pytest.fixture
def unchecked(place: Place) -> Place:
    """Give a place whose builds skip the checks of images."""
    return replace(place, options=("--no-verify",))


@pytest.fixture
def place(base: tuple[Place, list[Build]], tmp_path: Path) -> Iterator[Place]:
    with place_in(tmp_path, base[0]) as own:
        yield own


@contextmanager
def place_in(folder: Path, first: Place) -> Iterator[Place]:
    """Give folders for builds with a copy of the cache; no process of a build may outlive it."""
    own = Place(folder, first.recipes)
    copy(first.cache, own.cache)
    own.temporary.mkdir()
    own.image.parent.mkdir()
    yield own
    assert own.ends(), own.living()
