"""A registry for each test that talks to one."""

from collections.abc import Iterator

import pytest

from .server import Registry, serving


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as registry:
        yield registry
