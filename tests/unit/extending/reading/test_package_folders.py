"""Folders of packages that a file of requirements names are shown to all code that is built."""

from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.extending.reading.package_folders import find_other_files

PACKAGES = ("a-1.0-py3-none-any.whl", "a-1.0-py3-none-any.whl.metadata", "b_c-2.tar.gz", "d-1.zip")


@pytest.mark.parametrize("below", ["", "a"])
def test_a_folder_of_packages_or_of_an_index_holds_nothing_else(tmp_path: Path, below: str) -> None:
    folder = tmp_path / below
    folder.mkdir(exist_ok=True)
    for name in (*PACKAGES, "index.html"):
        (folder / name).touch()
    assert find_other_files(tmp_path) == []


@pytest.mark.parametrize("name", [".env", "id_rsa", "notes.txt", "backup.tar.gz", "login.json"])
@pytest.mark.parametrize("below", ["", "a/"])
def test_other_files_are_named(tmp_path: Path, below: str, name: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / PACKAGES[0]).touch()
    (tmp_path / f"{below}{name}").touch()
    assert find_other_files(tmp_path) == [f"{below}{name}"]


def test_links_and_deeper_folders_are_no_packages(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / PACKAGES[0]).symlink_to("/etc/passwd")
    assert sorted(find_other_files(tmp_path)) == [PACKAGES[0], "a/b"]


@pytest.mark.parametrize("option", ["--find-links {}", "--index-url file://{}", "-f file://{}"])
def test_a_file_of_requirements_shows_no_other_files_to_packages(
    tmp_path: Path, option: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").touch()
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(option.format(home) + "\nevil\n")
    with pytest.raises(InputError) as caught:
        read_additions([], [requirements], [])
    [problem] = caught.value.problems
    assert "other files than packages" in problem.what
    assert f"{home} holds .bashrc, which code of packages could read" in problem.why


def test_a_project_shows_no_other_files_to_packages(tmp_path: Path) -> None:
    (tmp_path / ".env").touch()
    project = tmp_path / "pyproject.toml"
    project.write_text(
        '[project]\nname = "a"\nversion = "1"\ndependencies = ["evil"]\n'
        f'[tool.uv]\nfind-links = ["{tmp_path}"]\n'
    )
    with pytest.raises(InputError, match="other files than packages"):
        read_additions([], [project], [])
