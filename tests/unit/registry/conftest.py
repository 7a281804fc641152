"""A registry for each test that talks to one, with small blobs and no pauses."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lumicontainer.cache.objects import Entry
from lumicontainer.cache.store import Cache
from lumicontainer.registry import cutting, remote_image
from lumicontainer.system import budget

from ..cache.taking import other, own
from .server import Registry, serving
from .team_cache import put_layer

__all__ = ["other", "own"]
TRANSFERS = ("MANIFEST", "TOKEN", "LAYER", "BLOB_STATE", "UPLOAD")


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as registry:
        yield registry


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait before a request is repeated."""
    for name in TRANSFERS:
        limits = getattr(budget, name)._replace(pauses=(0, 0, 0), longest_pause=1)
        monkeypatch.setattr(budget, name, limits)


@pytest.fixture
def small_blobs(no_pauses: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let images of 100 KB have many blobs, and let nobody wait."""
    monkeypatch.setattr(cutting, "REACH", 1)
    monkeypatch.setattr(cutting, "MOST", 16384)
    monkeypatch.setattr(cutting, "_SMALLEST", 512)
    monkeypatch.setattr(cutting, "_MARK", re.compile(rb"[\xC0\xDE][\x00-\x0f]"))
    monkeypatch.setattr(cutting, "_APART", 1024)
    monkeypatch.setattr(remote_image, "_CHUNK", 30_000)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.sif"
    path.write_bytes(Random(1).randbytes(100_000))
    return path


@pytest.fixture
def layer(own: Cache, tmp_path: Path) -> Entry:
    return put_layer(own, tmp_path)
