"""A secret that output of programs may hold."""

from collections.abc import Iterator

import pytest

from lumicontainer.system.terminal import masking

SECRET = "c4nary-5e3f-9b1c"


@pytest.fixture
def secret() -> Iterator[str]:
    masking.hide([SECRET])
    yield SECRET
    masking._hidden.clear()
