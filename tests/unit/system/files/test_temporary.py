"""The folder for builds can do what a build asks of it, or is refused at once."""

import os
import stat
import sys
from pathlib import Path

import pytest

from lumicontainer.errors import HostError
from lumicontainer.system.files.temporary import (
    plain_folder,
    remove_meanwhile,
    require_programs,
    temporary_root,
)

from ....namespaces import owned, prepared
from ....programs import run

pytestmark = pytest.mark.slow

DOCTOR = (sys.executable, "-m", "lumicontainer", "doctor")


@pytest.mark.parametrize("before", [False, True], ids=["new", "of an earlier version"])
def test_its_files_have_the_user_s_group_in_a_folder_that_hands_on_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    own = tmp_path / f"lumicontainer-{os.getuid()}"
    if before:
        own.mkdir(mode=0o700)
        own.chmod(0o2700)
    tmp_path.chmod(0o2700)
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path))
    root = temporary_root()
    assert root == own
    assert (stat.S_IMODE(root.stat().st_mode), root.stat().st_gid) == (0o700, os.getegid())


def test_programs_start_in_it_and_the_trial_leaves_nothing(tmp_path: Path) -> None:
    require_programs(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [".guard"]


def test_a_folder_whose_files_cannot_be_given_away_is_named(tmp_path: Path) -> None:
    """Root of a namespace with a single id stands for a file system without other owners."""
    alone = ("unshare", "--user", "--map-root-user")
    with pytest.raises(HostError) as error:
        require_programs(tmp_path, alone)
    (problem,) = error.value.problems
    assert problem.what == "cannot give files to another user in the folder for builds"
    assert problem.where == str(tmp_path)
    assert problem.hint == "name another folder: export LUMICONTAINER_TMPDIR=/var/tmp"


def test_doctor_refuses_a_file_system_without_programs(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o noexec,mode=700,{owned()} none {tmp_path}"
    done = run([*prepared("mount", mount), *DOCTOR], env={"LUMICONTAINER_TMPDIR": str(tmp_path)})
    line = "✗ runtime namespaces: cannot start programs in the folder for builds"
    text = done.stdout.partition(line)[2]
    assert text, done.stdout
    hint = text.splitlines()[1]
    assert hint == "    hint: name another folder: export LUMICONTAINER_TMPDIR=/var/tmp"


def test_extend_refuses_a_file_system_without_programs(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o noexec,mode=700,{owned()} none {tmp_path}"
    program = "from lumicontainer.extending.container import working_folder as it; it().__enter__()"
    command = [*prepared("mount", mount), sys.executable, "-c", program]
    done = run(command, env={"LUMICONTAINER_TMPDIR": str(tmp_path)})
    assert "cannot start programs in the folder for builds" in done.stderr
    assert "export LUMICONTAINER_TMPDIR=/var/tmp" in done.stderr


def test_folders_in_each_other_without_end_are_removed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with plain_folder("deep", tmp_path) as folder:
        deepest = folder
        for _ in range(sys.getrecursionlimit()):
            deepest /= "d"
            deepest.mkdir()
    assert not folder.exists()


def test_a_folder_is_removed_while_other_work_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed").chmod(0)
    with remove_meanwhile(folder):
        pass
    assert not folder.exists()
