"""Indexes that refuse access are named, whatever a resolver takes of others."""

import pytest

from lumicontainer.host.site import Site
from lumicontainer.host.uv import find_refusing_indexes

from .test_registry import Answer, answering

pytestmark = pytest.mark.slow
OTHER = {"find-links": "/srv/wheels"}


def refusing(pip: dict[str, str]) -> list[str]:
    """Return the indexes that refuse access."""
    site = Site("", "", None, {}, (), {}, pip)
    return [each.where for each in find_refusing_indexes(site, "top")]


def test_an_index_that_requires_a_password_is_named_without_the_users() -> None:
    seen: list[str] = []
    with answering((Answer(401),), seen) as host:
        pip = {"index-url": f"http://u:secret@{host}/simple/", **OTHER}
        assert refusing(pip) == [f"http://{host}/simple/"]
    assert seen == ["/simple/top/"]


def test_a_storage_may_answer_403_for_what_it_does_not_have() -> None:
    seen: list[str] = []
    with answering((Answer(403), Answer(200)), seen) as host:
        assert refusing({"extra-index-url": f"http://{host}/whl", **OTHER}) == []
    assert seen == ["/whl/top/", "/whl/"]


def test_a_single_index_and_those_that_are_not_asked_are_not_looked_at() -> None:
    seen: list[str] = []
    with answering((Answer(401),), seen) as host:
        assert refusing({"index-url": f"http://{host}/simple"}) == []
        assert refusing({"index-url": f"http://{host}/simple", "no-index": "1", **OTHER}) == []
    assert seen == []
