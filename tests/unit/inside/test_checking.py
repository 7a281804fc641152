"""A check reads its thresholds, also where somebody starts it by hand."""

import json

import pytest

from lumicontainer.inside.checking import CHECK, threshold


def test_a_threshold_comes_from_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHECK, raising=False)
    assert threshold("speed") == {}
    row = {"unit": "GB/s", "floor": 100}
    monkeypatch.setenv(CHECK, json.dumps({"name": "t/speed", "thresholds": {"speed": row}}))
    assert threshold("speed") == row
    assert threshold("other") == {}
