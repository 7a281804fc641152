"""Pages that promise or report something name tests that exist."""

import re
from pathlib import Path

import pytest

from ...conftest import ROOT

SECURITY, STATUS = ROOT / "SECURITY.md", ROOT / "docs/status.md"


@pytest.mark.parametrize("page", [SECURITY, STATUS], ids=lambda page: page.name)
def test_each_row_names_a_test(page: Path) -> None:
    lines = page.read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.endswith("| test |")]
    assert len(rows) > 15
    for row in rows:
        names = re.findall(r"\b(tests/[\w/]+\.py)", row.rsplit("|", 2)[1])
        assert names, row
        assert all((ROOT / name).is_file() for name in names), row


def test_the_status_fits_two_screens() -> None:
    assert len(STATUS.read_text().splitlines()) <= 80
