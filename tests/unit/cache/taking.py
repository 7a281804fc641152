"""Take objects of a team's cache as a build does."""

from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cache.objects import Entry
from lumicontainer.cache.shared.source import LayerSource
from lumicontainer.cache.store import Cache
from lumicontainer.system import flock


@pytest.fixture
def own(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "own").open()


@pytest.fixture
def other(tmp_path: Path) -> Cache:
    """Return the cache of somebody who takes."""
    return Cache(tmp_path / "other").open()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def taken(source: LayerSource, name: str, store: Cache) -> Entry:
    """Take an object as a build does, with the lock for making it held."""
    with flock.attempt(store.make_lock(name)) as held:
        assert held
        return source.take(name, store, lambda _: None)


def refused(source: LayerSource, name: str, store: Cache, error: type[Exception], why: str) -> Any:
    """See that an object is not taken, and leaves nothing; return the error."""
    with pytest.raises(error, match=why) as raised:
        taken(source, name, store)
    assert list((store.root / "objects").iterdir()) == []
    return raised.value
