"""Files that a container leaves are taken as files, or not at all."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.system.files import foreign
from lumicontainer.system.files.foreign import OddFilesError


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def nest(path: Path) -> None:
    folder = os.open(path.parent, os.O_DIRECTORY)
    for _ in range(200):
        os.mkdir("x", dir_fd=folder)
        below = os.open("x", os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)


ODD: dict[str, Callable[[Path], None]] = {
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a pipe": os.mkfifo,
    "a socket": bind_socket,
    "more than 100 folders deep": nest,
}


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """Return a folder as a container leaves it, with files."""
    folder = tmp_path / "left"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/c").write_text("text")
    (folder / "d").write_bytes(b"")
    return folder


def test_files_are_moved_to_where_no_container_sees_them(left: Path, tmp_path: Path) -> None:
    place = tmp_path / "taken"
    assert foreign.take(tmp_path, left.name, place) == {"a/b/c": 4, "d": 0}
    assert not left.exists()
    assert foreign.read_below(place, "a/b/c", 4) == b"text"


@pytest.mark.slow
@pytest.mark.parametrize("what", ODD)
def test_nothing_but_files_and_folders_is_taken(left: Path, tmp_path: Path, what: str) -> None:
    ODD[what](left / "a/odd")
    with pytest.raises(OddFilesError, match=what) as refused:
        foreign.take(tmp_path, left.name, tmp_path / "taken")
    assert refused.value.code == 5


def test_a_folder_that_is_a_link_is_not_entered(left: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(left)
    with pytest.raises(OddFilesError):
        foreign.take(tmp_path, "link", tmp_path / "taken")
    (left / "a/more").symlink_to(left / "a/b")
    with pytest.raises(OddFilesError):
        foreign.read_below(left, "a/more/c", 9)
    (tmp_path / "own/left").mkdir(parents=True)
    (tmp_path / "parent").symlink_to(tmp_path / "own")
    for name in ("none", "parent/left"):
        with pytest.raises(OddFilesError):
            foreign.take(tmp_path, name, tmp_path / "other")
    assert (tmp_path / "own/left").is_dir()


def test_a_file_is_read_to_its_limit(left: Path) -> None:
    with pytest.raises(OddFilesError, match="larger than 3 bytes"):
        foreign.read_below(left, "a/b/c", 3)
