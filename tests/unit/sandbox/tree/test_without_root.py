"""Owners reach mksquashfs as lines of text."""

from pathlib import Path

import pytest

from lumicontainer.errors import HostError
from lumicontainer.sandbox.tree.without_root import pseudo_options

pytestmark = pytest.mark.slow


def test_a_name_with_a_newline_is_no_second_definition(tmp_path: Path) -> None:
    (tmp_path / "a\nb f 644 0 0 id").touch()
    with (
        pytest.raises(HostError, match="its name holds a newline"),
        pseudo_options(tmp_path, {}, {}),
    ):
        pass
