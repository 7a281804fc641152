"""Packages and places that tests of extensions name."""

from pathlib import Path

import pytest

from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.extending.reading.references import Reference

from ...packages import write_wheel

ZEROS, ONES, TWOS = ("0" * 64, "1" * 64, "2" * 64)
RICH = """\
[[packages]]
name = "rich"
version = "15.0"
wheels = [{ url = "https://x.example/rich-15.0-py3-none-any.whl", hashes = { md5 = "0" } }]
"""
HASH = "0" * 64
PROJECT = '[project]\nname = "mine"\nversion = "1.0"\n'


def reference(word: str) -> Reference:
    """Return what one word refers to."""
    additions = read_additions([word], [], [])
    assert additions.lines == ()
    (only,) = additions.references
    return only


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a wheel, a source, and a folder of code."""
    monkeypatch.chdir(tmp_path)
    write_wheel(tmp_path, "wheel", "1.0")
    (tmp_path / "code").mkdir()
    (tmp_path / "code/pyproject.toml").write_text(PROJECT)
    (tmp_path / "mine-1.0.tar.gz").touch()
    return tmp_path
