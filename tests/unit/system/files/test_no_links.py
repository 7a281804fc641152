"""In folders that a step or a base has filled the host follows no link."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.system.files import no_links

from ....programs import run

MINE = "the user's own\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Make a folder of the user's, with files that no build may read, change or remove."""
    folder = tmp_path / "home"
    (folder / "bootstrap_history").mkdir(parents=True)
    for name in ("Singularity", "labels.json", "runscript", "x.whl", "bootstrap_history/x"):
        (folder / name).write_text(MINE)
    (folder / "hosts").touch()
    before = contents(folder)
    yield folder
    assert contents(folder) == before


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "etc").mkdir(parents=True)
    return folder


def lay(tree: Path) -> int:
    """Copy notes into a tree, and return the exit code."""
    notes = tree.with_name("notes")
    files = [(f".singularity.d/{name}", 0o644, b"new\n") for name in ("runscript", "env/90.sh")]
    no_links.write_tree(notes, files)
    return run(no_links.copy_command(notes, tree)).returncode


def contents(folder: Path) -> dict[str, str]:
    """Return the texts of all files below a folder."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


@pytest.mark.parametrize("name", ["/etc/passwd", "//etc/passwd", "../up", "a/../../up"])
def test_no_file_is_written_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """A foreign image names the folder of its packages."""
    with pytest.raises(ValueError, match="is not below the folder"):
        no_links.write_tree(tmp_path / "layer", [(name, 0o644, b"")])


@pytest.mark.slow
def test_a_copy_replaces_a_link_alone(tree: Path, home: Path) -> None:
    (tree / ".singularity.d").mkdir()
    (tree / ".singularity.d/runscript").symlink_to(home / "runscript")
    assert lay(tree) == 0
    assert contents(tree / ".singularity.d") == {"runscript": "new\n", "env/90.sh": "new\n"}


@pytest.mark.slow
def test_a_copy_has_the_modes_of_a_plain_build(tmp_path: Path, tree: Path) -> None:
    tree.chmod(0o751)
    before = os.umask(0o077)
    try:
        files = [("opt/bin/program", 0o755, b""), ("opt/lib/module.py", 0o644, b"")]
        no_links.write_tree(tmp_path / "files", files)
        assert run(no_links.copy_command(tmp_path / "files", tree)).returncode == 0
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in (tree, *tree.glob("opt/**/*"))}
    assert modes == {
        "tree": 0o751,
        "bin": 0o755,
        "program": 0o755,
        "lib": 0o755,
        "module.py": 0o644,
    }


@pytest.mark.slow
@pytest.mark.parametrize("place", [".singularity.d", ".singularity.d/env"])
def test_a_copy_goes_through_no_link_to_a_folder(tree: Path, home: Path, place: str) -> None:
    (tree / place).parent.mkdir(exist_ok=True)
    (tree / place).symlink_to(home)
    assert lay(tree) != 0


def test_a_base_loses_the_engine_s_notes_and_gains_hosts(tree: Path) -> None:
    (tree / ".singularity.d/bootstrap_history").mkdir(parents=True)
    for name in ("Singularity", "labels.json", "actions", "bootstrap_history/x"):
        (tree / ".singularity.d" / name).touch()
    (tree / "etc/hosts").touch()
    no_links.clean_base(tree)
    hosts = "127.0.0.1 localhost\n::1 localhost\n"
    assert contents(tree) == {".singularity.d/actions": "", "etc/hosts": hosts}
    (tree / "etc/hosts").write_text(MINE)
    no_links.clean_base(tree)
    assert contents(tree / "etc") == {"hosts": MINE}


@pytest.mark.parametrize(
    ("place", "target"),
    [(".singularity.d", "."), ("etc", "."), ("etc/hosts", "hosts"), ("etc/hosts", "none")],
)
def test_a_link_of_a_base_leads_nowhere(tree: Path, home: Path, place: str, target: str) -> None:
    if place == "etc":
        (tree / "etc").rmdir()
    (tree / place).symlink_to(home / target)
    no_links.clean_base(tree)
    assert (tree / place).is_symlink()
