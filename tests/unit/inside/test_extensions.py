"""How an image's Python sees extensions, and what its pip says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lumicontainer.inside.image import extensible, user_software

PART = "lib/python{}.{}/site-packages".format(*sys.version_info[:2])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("user-software-2", "opt/user-software/01", "user-software", "other"):
        (tmp_path / name / PART).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", ["/lib", "/image"])
    return tmp_path


def test_later_extensions_come_first_and_all_before_the_image(root: Path) -> None:
    (root / "user-software-3/lib/python2.7/site-packages").mkdir(parents=True)
    user_software.add("/image", str(root))
    order = ("user-software-2", "user-software", "opt/user-software/01")
    assert sys.path == ["/lib", *(str(root / name / PART) for name in order), "/image"]


def test_lines_of_pth_files_of_an_extension_run(root: Path) -> None:
    code = root / "code"
    code.mkdir()
    (root / "user-software" / PART / "mine.pth").write_text(f"{code}\n")
    user_software.add("/image", str(root))
    assert sys.path.index(str(code)) < sys.path.index("/image")


def test_the_line_of_the_pth_file_is_one_line_that_runs() -> None:
    line = extensible.line("/image")
    assert line.count("\n") == 1 and line.startswith("import ")
    exec(line)
