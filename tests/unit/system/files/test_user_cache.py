"""The place of the cache can be named."""

from pathlib import Path

import pytest

from lumicontainer.system.files.user_cache import cache_root


def test_the_place_of_the_cache_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LUMICONTAINER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    places = (
        *(("HOME", "/h", "/h/.cache/lumicontainer"), ("XDG_CACHE_HOME", "/x", "/x/lumicontainer")),
        ("LUMICONTAINER_CACHE", "/own", "/own"),
    )
    for name, value, place in places:
        monkeypatch.setenv(name, value)
        assert cache_root() == Path(place)
