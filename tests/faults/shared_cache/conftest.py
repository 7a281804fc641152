"""A shared cache, and what it has."""

import os
from pathlib import Path

import pytest

from lumicontainer.cache.objects import Entry
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.store import Cache

from ...unit.cache.taking import other, own
from ...unit.cache.test_store import put

__all__ = ["other", "own"]
ME = os.geteuid()


@pytest.fixture
def team(tmp_path: Path) -> SharedCache:
    """Return a shared cache for a group, of which this user alone is trusted."""
    root = tmp_path / "team"
    root.mkdir()
    root.chmod(0o3770)
    return SharedCache(root, frozenset({ME}))


@pytest.fixture
def published(own: Cache, team: SharedCache) -> Entry:
    entry = put(own)
    assert team.publish(entry)
    return entry
