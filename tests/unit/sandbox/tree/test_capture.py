"""A tree is captured as layers, and checked out from them, by real programs in a namespace."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lumicontainer.cache.objects import INDEX
from lumicontainer.sandbox.tree.index import GONE, read_index
from lumicontainer.sandbox.tree.snapshot import print_of, read_state, scan
from lumicontainer.system.user_namespaces import namespace_command

from ....namespaces import ordinary

pytestmark = pytest.mark.slow


class Tree:
    """Hold a tree, its state, and the layers that were captured of it."""

    def __init__(self, folder: Path, start: Sequence[str] | None = None) -> None:
        self.path, self.state, self.layers = folder / "tree", folder / "state", list[Path]()
        self.start = namespace_command() if start is None else start
        self.path.mkdir()
        self.path.chmod(0o755)

    def capture(self, *options: str) -> set[str]:
        """Capture what changed as one more layer; return its paths, with "-" before the removed."""
        layer = self.path.parent / f"layer-{len(self.layers)}"
        layer.mkdir()
        self._module("capture", self.path, self.state, layer, *options)
        self.layers.append(layer)
        rows = read_index(layer / INDEX).items()
        return {f"-{path}" if row.kind == GONE else path for path, row in rows}

    def check_out(self, number: int) -> None:
        """Check out the lowest layers."""
        self._module("checkout", self.path, self.state, *self.layers[:number])

    def _module(self, name: str, *words: Path | str) -> None:
        module = [sys.executable, "-X", "utf8", "-m", f"lumicontainer.sandbox.tree.{name}"]
        subprocess.run([*self.start, *module, *words], check=True, input=b"")

    def seen(self) -> dict[str, tuple[int, int, bytes]]:
        """Return what a program sees of each path: mode, number of names, content."""
        return {
            str(path.relative_to(self.path)): (
                path.lstat().st_mode,
                0 if path.is_dir() else path.lstat().st_nlink,
                path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
            )
            for path in self.path.rglob("*")
        }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Capture a tree of files of all kinds as its first layer."""
    tree = Tree(tmp_path)
    (tree.path / "a/b").mkdir(parents=True)
    (tree.path / "a/file").write_text("one")
    os.link(tree.path / "a/file", tree.path / "a/b/other name")
    (tree.path / "a/link").symlink_to("file")
    (tree.path / os.fsdecode(b"a/\xff\n")).write_text("no UTF-8")
    os.mkfifo(tree.path / "a/fifo")
    tree.capture()
    return tree


def replace_by_rename(tree: Path) -> None:
    (tree / "new").write_text("one")
    (tree / "new").rename(tree / "a/link")


BOTH = {"a", "a/b", "a/b/other name", "a/file"}
CHANGES: tuple[tuple[Callable[[Path], object], set[str]], ...] = (
    (lambda tree: tree.chmod(0o755), set()),
    (lambda tree: (tree / "a/file").write_text("two"), BOTH),
    (lambda tree: os.link(tree / "a/file", tree / "third"), {*BOTH, "third"}),
    (lambda tree: (tree / "a/b").chmod(0o700), {"a", "a/b"}),
    (replace_by_rename, {"a", "a/link"}),
    (lambda tree: (tree / "a/link").unlink(), {"a", "-a/link"}),
    (lambda tree: shutil.rmtree(tree / "a/b"), {"a", "-a/b", "a/file", "third"}),
)
"""The commands of a step, and the paths of its layer."""


def test_a_layer_has_the_changed_paths_and_comes_back(tree: Tree) -> None:
    states = [tree.seen()]
    for make, paths in CHANGES:
        make(tree.path)
        states.append(tree.seen())
        assert tree.capture() == paths
    for number in reversed(range(len(CHANGES))):
        tree.check_out(number + 1)
        assert tree.seen() == states[number]
    tree.check_out(len(states))
    assert tree.seen() == states[-1]


def test_the_last_layer_clears_setuid_of_programs_alone(tree: Tree) -> None:
    for folder, mode in (("usr", 0o4755), ("opt", 0o2711), ("home", 0o4755)):
        (tree.path / folder).mkdir()
        (tree.path / folder / "program").touch()
        (tree.path / folder / "program").chmod(mode)
    tree.capture()
    assert tree.capture("--clear-setuid") == {"usr", "usr/program", "opt", "opt/program"}
    seen = tree.seen()
    modes = [seen[f"{folder}/program"][0] & 0o7777 for folder in ("usr", "opt", "home")]
    assert modes == [0o755, 0o711, 0o4755]


def test_what_a_mirror_was_mounted_on_is_left_out_and_mount_points_of_the_image_are_kept(
    tree: Tree,
) -> None:
    for folder in ("scratch/project/mirror", "home/mirror"):
        (tree.path / folder).mkdir(parents=True)
    mounts = ("--drop=/scratch/project/mirror", "--drop=/home/mirror")
    assert tree.capture(*mounts) == set()
    assert tree.capture(*mounts, "--keep=/scratch", "--keep=/pfs") == {"scratch"}


def test_a_check_out_corrects_what_changed_since(tree: Tree) -> None:
    before = tree.seen()
    (tree.path / "a/file").write_text("two")
    (tree.path / "a/b").chmod(0o700)
    (tree.path / "a/fifo").unlink()
    (tree.path / "more").mkdir()
    tree.check_out(1)
    assert tree.seen() == before


@pytest.mark.parametrize("damage", [b"", b"a\0b\0c\0"])
def test_without_a_good_state_every_file_is_read(tree: Tree, damage: bytes) -> None:
    before = tree.seen()
    tree.state.write_bytes(damage)
    (tree.path / "a/file").write_text("two")
    tree.check_out(1)
    assert tree.seen() == before


def test_a_path_that_python_has_seen_has_the_print_that_find_shows(tree: Tree) -> None:
    prints = scan(tree.path)
    assert prints == {path: print_of((tree.path / path).lstat()) for path in prints}
    assert read_state(tree.state).prints == prints


CLOSED = (0o500, 0o311, 0o600, 0)


@pytest.fixture
def closing(tmp_path: Path) -> Tree:
    """Capture folders and files that their owner cannot use, then the same with other modes."""
    tree = Tree(tmp_path, ordinary())
    # With this name, all layers are unpacked whenever it is missing.
    (tree.path / "a\\b").touch()
    for mode in CLOSED:
        folder = tree.path / f"{mode:o}"
        folder.mkdir()
        (folder / "file").write_text("one")
        (folder / "file").chmod(0)
        folder.chmod(mode)
    tree.capture()
    for mode in CLOSED:
        folder = tree.path / f"{mode:o}"
        folder.chmod(0o700)
        (folder / "file").chmod(0o644)
        (folder / "file").write_text("two")
        folder.chmod(0o755 if mode == 0o311 else mode)
    tree.capture()
    return tree


@pytest.mark.parametrize("whole", [False, True], ids=["changed paths", "whole layers"])
def test_an_ordinary_user_checks_out_closed_folders_and_files(closing: Tree, whole: bool) -> None:
    after = closing.seen()
    for number in (1, 2, 1, 2):
        if whole:
            (closing.path / "a\\b").unlink()
        closing.check_out(number)
        modes = {path: mode & 0o777 for path, (mode, *_) in closing.seen().items()}
        if number == 2:
            assert closing.seen() == after
        else:
            assert modes == {
                "a\\b": 0o644,
                **{f"{mode:o}": mode for mode in CLOSED},
                **{f"{mode:o}/file": 0 for mode in CLOSED},
            }
    assert closing.capture() == set()


def test_an_ordinary_user_reads_closed_files_of_a_tree_without_a_state(closing: Tree) -> None:
    after = closing.seen()
    closing.check_out(1)
    closing.state.unlink()
    closing.check_out(2)
    assert closing.seen() == after
