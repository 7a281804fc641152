"""A build takes over the tree that an earlier one left, and no tree that is being removed."""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lumicontainer.sandbox import workspace
from lumicontainer.sandbox.tree.snapshot import STATE
from lumicontainer.system import flock
from lumicontainer.system.files.temporary import plain_folder, temporary_root

from ...namespaces import ordinary

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path))
    return temporary_root()


def leave_tree(recipe: str) -> Path:
    """Do as a build does that leaves a tree behind; return its folder."""
    with workspace.workspace(recipe) as place:
        (place.sandbox / "tree").mkdir(parents=True)
        (place.sandbox / STATE).write_text(recipe)
    return place.root


def test_the_tree_of_the_last_build_is_taken_over(root: Path) -> None:
    leave_tree("one")
    with workspace.workspace("one") as place:
        assert (place.sandbox / STATE).read_text() == "one"


def test_what_a_lock_left_is_removed_and_not_taken_over(root: Path) -> None:
    leave_tree(f"one{workspace.LOCK}")
    with workspace.workspace(f"one{workspace.LOCK}") as place:
        assert (place.sandbox / STATE).exists()
        with workspace.workspace("one") as other:
            assert not other.sandbox.exists()
        assert place.sandbox.exists()
    with workspace.workspace("one") as other:
        assert not other.sandbox.exists()
    assert list(folders(root)) == []


def test_a_cleaner_of_temporary_folders_passes_over_a_running_build(root: Path) -> None:
    """Systemd-tmpfiles passes over a folder that it cannot lock alone (tmpfiles.d(5))."""
    with workspace.workspace("one") as place, plain_folder("two") as folder:
        for each in (place.root, folder):
            descriptor = os.open(each, os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(descriptor)


def test_a_tree_in_removal_is_not_taken_over(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = leave_tree("one")
    removing, go_on = threading.Event(), threading.Event()
    remove = workspace.remove_tree

    def remove_slowly(folder: Path) -> None:
        if folder.name == f".{left.name}" and threading.current_thread() is other:
            removing.set()
            assert go_on.wait(120)
        remove(folder)

    monkeypatch.setattr(workspace, "remove_tree", remove_slowly)
    other = threading.Thread(target=leave_tree, args=("two",))
    other.start()
    try:
        assert removing.wait(120), "a build that leaves a tree removes the others"
        with workspace.workspace("one") as place:
            assert not place.sandbox.exists()
    finally:
        go_on.set()
        other.join()
    assert {folder.name.partition("-")[0] for folder in folders(root)} == {"two"}


def test_what_another_build_is_removing_gets_nothing_new(root: Path) -> None:
    aside = root / ".one-abc"
    aside.mkdir()
    seen: list[list[Path]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace, "remove_tree", lambda at: seen.append(list(at.iterdir())))
        with workspace.workspace("one"):
            pass
    assert seen[0] == []


def test_of_builds_of_one_recipe_that_end_at_once_one_leaves_its_tree(root: Path) -> None:
    together = threading.Barrier(8)

    def build() -> None:
        with workspace.workspace("one") as place:
            (place.sandbox / "tree").mkdir(parents=True)
            together.wait(120)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: build(), range(8))) == [None] * 8
    assert len(list(folders(root))) == 1


@pytest.mark.parametrize("has_tree", [True, False])
def test_only_one_build_leaves_its_tree(root: Path, has_tree: bool) -> None:
    with workspace.workspace("one") as place:
        if has_tree:
            (place.sandbox / "tree").mkdir(parents=True)
        left = leave_tree("one")
    assert list(folders(root)) == [place.root if has_tree else left]


@pytest.mark.parametrize("name", ["two-dead", ".two-dead"])
def test_the_next_build_removes_what_a_dead_one_left(root: Path, name: str) -> None:
    (root / name / "sandbox" / "tree").mkdir(parents=True)
    (root / name / "lock").touch()
    with workspace.workspace("one") as place:
        assert list(folders(root)) == [place.root]
    assert [each.name for each in root.iterdir()] == [".guard"]


def test_what_lives_or_is_kept_for_a_look_is_not_taken_for_dead(root: Path) -> None:
    with workspace.workspace("failed") as kept:
        kept.keep = True
    with workspace.workspace("two") as living, workspace.workspace("one") as place:
        assert set(folders(root)) == {kept.root, living.root, place.root}


def fail_with_a_log(recipe: str) -> Path:
    """Do as a build does that keeps only its logs; return the log."""
    with pytest.raises(LookupError), workspace.workspace(recipe) as place:
        (place.sandbox / "tree").mkdir(parents=True)
        log = place.log("unpack")
        log.write_text("why it failed")
        place.keep_logs = True
        raise LookupError
    return log


def test_the_log_of_a_failed_build_stays_until_the_next_build_of_its_recipe(root: Path) -> None:
    log = fail_with_a_log("one")
    assert not (log.parents[1] / "sandbox").exists()
    for other in ("two", "one-more"):
        leave_tree(other)
    assert log.read_text() == "why it failed"
    with workspace.workspace("one") as place:
        assert log.parents[1] not in folders(root)
        other = fail_with_a_log("one")
        assert place.root.exists()
    assert other.exists()
    leave_tree("one")
    assert not other.exists()


def test_an_interrupted_build_keeps_nothing_of_a_failed_step_and_says_so_to_its_caller(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), workspace.workspace("one", said.append) as place:
        place.log("unpack").touch()
        place.keep = place.keep_logs = True
        raise KeyboardInterrupt
    assert list(folders(root)) == []
    assert said == [f"interrupted: removing {place.root}"]
    assert capfd.readouterr() == ("", "")


REMOVE = """
import sys
from pathlib import Path
from lumicontainer.sandbox.workspace import remove_tree
from lumicontainer.system.process import ProgramError
try:
    remove_tree(Path(sys.argv[1]))
except ProgramError as error:
    sys.exit(str(error))
"""


def test_without_namespaces_the_reason_why_a_folder_stays_is_shown(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "closed/folder"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o555)
    command = ["env", "LC_ALL=C", *ordinary(), sys.executable, "-c", REMOVE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    folder.parent.chmod(0o755)
    assert folder.exists()
    assert "error: rm failed (exit code 1)" in done.stderr, done.stderr
    assert f"cannot remove '{folder}': Permission denied" in done.stderr


def test_who_shares_a_lock_is_known_by_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = ["flock", "--shared", str(path), "sh", "-c", "echo; cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert flock.users(path) == f"process {child.pid}"
        child.communicate()
    assert flock.users(path) == "another build"


def folders(root: Path) -> Iterator[Path]:
    return (each for each in root.iterdir() if each.is_dir())


CLOSED = """
import os
from lumicontainer.system.files.temporary import plain_folder
with plain_folder("mine") as folder:
    for name, mode in (("closed", 0), ("closed-to-writing", 0o555)):
        (folder / name / "below").mkdir(parents=True)
        (folder / name).chmod(mode)
print(os.listdir(folder.parent))
"""


def test_folders_that_a_container_closed_are_removed(tmp_path: Path) -> None:
    place = f"LUMICONTAINER_TMPDIR={tmp_path}"
    command = ["env", place, *ordinary(), sys.executable, "-c", CLOSED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "['.guard']\n", done.stderr
