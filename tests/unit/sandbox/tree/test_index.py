"""Layers together make the tree that they make on a disk one after the other."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumicontainer.sandbox.tree.index import (
    FILE,
    FOLDER,
    GONE,
    SYMLINK,
    Index,
    Row,
    differences,
    merge,
    read_index,
    write_index,
)

A_FILE, A_FOLDER = Row(FILE, 0o644, what="a"), Row(FOLDER, 0o755)
names = st.sampled_from("abc")
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
ROWS = (
    *(Row(FILE, mode, what=what) for mode in (0o600, 0o644) for what in "xy"),
    *(Row(FOLDER, mode) for mode in (0o700, 0o755)),
    *(Row(SYMLINK, 0o777, what=what) for what in "xy"),
    Row(GONE),
)
changes = st.dictionaries(paths, st.sampled_from(ROWS), max_size=6)


@st.composite
def layers(draw: st.DrawFn) -> Index:
    """Return a layer as a build makes it: with the folders of all that it holds."""
    index: dict[str, Row] = {}
    for path, row in sorted(draw(changes).items()):
        parts = path.split("/")
        above = ["/".join(parts[:length]) for length in range(1, len(parts))]
        if all(index.get(folder, A_FOLDER).kind == FOLDER for folder in above):
            index |= {folder: index.get(folder, A_FOLDER) for folder in above}
            index[path] = row
    return index


def apply(root: Path, index: Index) -> None:
    """Do to a real folder what a layer says."""
    for path, row in sorted(index.items()):
        place = root / path
        if place.is_symlink() or place.is_file():
            place.unlink()
        elif place.is_dir() and row.kind != FOLDER:
            shutil.rmtree(place)
        if row.kind == FOLDER:
            place.mkdir(exist_ok=True)
        elif row.kind == FILE:
            place.write_text(row.what)
        elif row.kind == SYMLINK:
            place.symlink_to(row.what)
        if row.kind in (FILE, FOLDER):
            place.chmod(row.mode)


def row_of(place: Path) -> Row:
    """Return what stands on the disk, in the words of an index."""
    mode = place.lstat().st_mode & 0o7777
    if place.is_symlink():
        return Row(SYMLINK, 0o777, what=str(place.readlink()))
    return Row(FOLDER, mode) if place.is_dir() else Row(FILE, mode, what=place.read_text())


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(layers(), max_size=4))
def test_merging_is_applying_one_after_the_other(indexes: list[Index]) -> None:
    with tempfile.TemporaryDirectory() as name:
        for index in indexes:
            apply(Path(name), index)
        rows = {str(each.relative_to(name)): row_of(each) for each in Path(name).rglob("*")}
        assert merge(indexes).rows == rows


@pytest.mark.slow
@settings(deadline=None)
@given(layers())
def test_an_index_is_read_as_it_was_written(index: Index) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "index"
        write_index(path, index)
        assert read_index(path) == index
        text = path.read_bytes()
        write_index(path, dict(reversed(index.items())))
        assert path.read_bytes() == text


@pytest.mark.slow
@given(layers(), layers())
def test_indexes_differ_in_just_the_paths_whose_rows_differ(one: Index, other: Index) -> None:
    paths = [path for path, _ in differences(one, other)]
    assert paths == sorted(p for p in one.keys() | other.keys() if one.get(p) != other.get(p))


def test_equal_links_of_two_layers_are_two_files() -> None:
    link = A_FILE._replace(link="a")
    rows = merge([{"a": link, "b": link}, {"a": link, "c": link}]).rows
    assert rows["a"].link == rows["c"].link
    assert rows["a"].link != rows["b"].link


def test_a_difference_names_what_differs() -> None:
    other = A_FILE._replace(mode=0o600, uid=1, what="b")
    assert list(differences({"a": A_FILE}, {"a": other, "b": A_FILE})) == [
        ("a", "mode, owner, content"),
        ("b", "only in one"),
    ]
