"""What the golden tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent

Golden = Callable[[str, str], None]


@pytest.fixture
def is_golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the file beside this one."""

    def compare(text: str, name: str) -> None:
        golden = HERE / name
        if request.config.getoption("--update-golden"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(text)
        assert text == golden.read_text()

    return compare
