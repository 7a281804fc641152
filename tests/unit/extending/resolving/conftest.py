"""Fixtures of tests that choose versions."""

from pathlib import Path

import pytest

from .folder_index import Index


@pytest.fixture
def index(tmp_path: Path) -> Index:
    served = Index(tmp_path)
    served.wheel("helper", "1.0")
    return served
