"""The Python packages of an image are those that a program imports, with all of their files."""

from importlib.metadata import Distribution
from pathlib import Path

import pytest

from lumicontainer.inside.image import inventory
from lumicontainer.inside.image.distributions import UNSAID, Package, packages, plain_name

RECORD = """\
one/__init__.py,sha256=x,12
one/deep/mod.py,sha256=x,3
fast.cpython-311-x86_64-linux-gnu.so,sha256=x,9
plain.py,sha256=x,1
_private.py,sha256=x,1
data.d/__init__.py,sha256=x,1
"a,b.txt",sha256=x,4
../../bin/tool,sha256=x,5
one-1.dist-info/RECORD,,
"""


@pytest.fixture
def by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Package]:
    """Return packages of two folders, the second of which has another version of one."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder, version in zip(folders, "12", strict=True):
        info = folder / f"one-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: One._Test\nVersion: {version}\n")
        (info / "RECORD").write_text(RECORD)
        (info / "top_level.txt").write_text("listed\n_private\nno/module\n")
    (folders[1] / "nameless.dist-info").mkdir()
    (folders[1] / "nameless.dist-info/METADATA").write_text("Version: 1\n")
    monkeypatch.setattr("sys.path", list(map(str, folders)))
    return {plain_name(package.name): package for package in packages()}


def test_the_first_of_a_name_is_the_one_that_programs_import(by_name: dict[str, Package]) -> None:
    assert {name: package.version for name, package in by_name.items()} == {"one-test": "1"}


def test_each_file_has_its_place_and_its_size(by_name: dict[str, Package], tmp_path: Path) -> None:
    files = dict(by_name["one-test"].files)
    folder = f"{tmp_path}/first"
    assert files[f"{folder}/one/__init__.py"] == 12
    assert files[f"{folder}/a,b.txt"] == 4
    assert files[f"{tmp_path.parent}/bin/tool"] == 5
    assert files[f"{folder}/one-1.dist-info/RECORD"] == UNSAID
    assert len(files) == len(RECORD.splitlines())


@pytest.mark.parametrize("name", ["RECORD", "top_level.txt", "requires.txt"])
def test_a_list_that_is_not_utf_8_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    notes = tmp_path / "old-1.egg-info"
    notes.mkdir()
    (notes / "PKG-INFO").write_text("Name: old\nVersion: 1\n")
    (notes / name).write_bytes(b"\xe9,,\n")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    (old,) = packages()
    assert (list(old.files), old.modules(), old.requires()) == ([], [], [])


@pytest.mark.parametrize("text", [b"Name: old\nVersion: 1\nSummary: \xe9\n", b"Name: old\n", b""])
def test_a_package_that_no_program_can_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    for name, metadata in (("new", b"Name: new\nVersion: 2\n"), ("old", text)):
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info/METADATA").write_bytes(metadata)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert [each.name for each in packages()] == ["new"]


@pytest.mark.slow
def test_system_packages_are_those_that_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert inventory.system_packages() == {}
    (tmp_path / "dpkg-query").write_text("#!/bin/sh\nprintf 'ii \ta\t1\nrc \tgone\t2\n'\n")
    (tmp_path / "dpkg-query").chmod(0o755)
    assert inventory.system_packages() == {"a": "1"}


def test_modules_are_what_a_program_would_import(by_name: dict[str, Package]) -> None:
    assert by_name["one-test"].modules() == ["fast", "listed", "one", "plain"]
    assert by_name["one-test"].text("entry_points.txt") == ""


ODD = {
    '"new\nline.py",sha256=x,1\n': {"new\nline.py": 1},
    "line\u2028separator.py,sha256=x,2\n": {"line\u2028separator.py": 2},
    '"a ""quoted"" one",sha256=x,3\n': {'a "quoted" one': 3},
    "none\n\n,\nfour,sha256=x,4,more\nnul\0,sha256=x,1\n": {},
    "large,sha256=x," + "9" * 5000 + "\nword,sha256=x,word\n": {"large": UNSAID, "word": UNSAID},
    "fine,sha256=x,5\n" + "x" * 200_000 + ",sha256=x,1\n": {"fine": 5},
}


@pytest.mark.parametrize("record", ODD, ids=range(len(ODD)))
def test_what_is_no_row_of_a_list_of_files_is_skipped(tmp_path: Path, record: str) -> None:
    folder = tmp_path / "a-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: a\nVersion: 1\n")
    (folder / "RECORD").write_text(record)
    files = Package(Distribution.at(folder)).files
    assert {path[len(f"{tmp_path}/") :]: size for path, size in files} == ODD[record]
