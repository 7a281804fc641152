"""Each promise of the page about security names a test that there is."""

import re

from ..conftest import ROOT


def test_each_promise_names_a_test() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for row in rows:
        names = re.findall(r"`(tests/\S+\.py)`", row.rsplit("|", 2)[1])
        assert names, row
        assert all((ROOT / name).is_file() for name in names), row
