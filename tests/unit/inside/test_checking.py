"""A check reads its thresholds, also where somebody starts it by hand."""

import json
import sys
from pathlib import Path

import pytest

from lumicontainer.inside.checking import CHECK, REPORT, UNDECLARED, note_undeclared, threshold


def test_a_threshold_comes_from_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHECK, raising=False)
    assert threshold("speed") == {}
    row = {"unit": "GB/s", "floor": 100}
    monkeypatch.setenv(CHECK, json.dumps({"name": "t/speed", "thresholds": {"speed": row}}))
    assert threshold("speed") == row
    assert threshold("other") == {}


def test_what_a_check_reads_beside_what_it_declares_is_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    report.touch()
    monkeypatch.setenv(REPORT, str(report))
    monkeypatch.setenv(CHECK, json.dumps({"name": "t/ssl", "reads": ["/etc/ssl/*"]}))
    monkeypatch.setattr(sys, "path", ["", "/usr/lib/python3"])
    note_undeclared(["/etc/ssl/certs/a", "/opt/own/liba.so.1", "/etc/ld.so.conf.d/*.conf"])
    assert report.read_text() == ""
    monkeypatch.setattr(sys, "path", ["/srv/modules"])
    note_undeclared(["/etc/own"])
    assert json.loads(report.read_text()) == {
        "fact": UNDECLARED,
        "value": ["/etc/own", "/srv/modules"],
    }
