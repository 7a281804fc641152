"""One base for all tests of reliability, and for each a place of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .chain import Build, Place, copy, until, write_chain


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, list[Build]]:
    """Build two recipes with the same base at once, one with --rebuild, in an empty cache."""
    root = tmp_path_factory.mktemp("base")
    place = Place(root, write_chain(root / "recipes"))
    for folder in (place.temporary, place.image.parent):
        folder.mkdir()
    other = place.start("--rebuild", output=place.image.with_name("other.sif"), recipe="other")
    builds = [place.start(), other]
    for build in builds:
        assert build.wait(600) == 0, build.told[-3000:]
    return place, builds


@pytest.fixture
def place(base: tuple[Place, list[Build]], tmp_path: Path) -> Iterator[Place]:
    """Give folders for builds with a copy of the cache; no process of a build may outlive it."""
    first, _ = base
    own = Place(tmp_path, first.recipes)
    copy(first.cache, own.cache)
    own.temporary.mkdir()
    own.image.parent.mkdir()
    yield own
    assert until(lambda: not own.living()), own.living()
