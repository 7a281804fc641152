"""The context of a file is the folder that it copies from, without what Docker leaves out."""

from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.importing.read import context_for

from .conftest import Import, notes

LAYOUT = ("docker/Dockerfile", "requirements/base.txt", "src/main.py", ".git/HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a Dockerfile in a subfolder."""
    for name in LAYOUT:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "text", ["COPY requirements/base.txt /tmp/", "COPY . /app", 'ADD ["src", "/app"]']
)
def test_the_context_is_the_folder_that_has_what_is_copied(repository: Path, text: str) -> None:
    file = repository / "docker/Dockerfile"
    file.write_text(f"FROM debian\n{text}\n")
    assert context_for(file, None) == repository
    (repository / "docker/requirements").mkdir()
    (repository / "docker/requirements/base.txt").touch()
    (repository / "docker/src").mkdir()
    assert context_for(file, None) == file.parent
    assert context_for(file, repository) == repository


@pytest.mark.parametrize("name", ["requirements.txt", "environment.yml"])
def test_a_list_of_packages_has_no_context(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="this kind of file copies no files"):
        context_for(tmp_path / name, tmp_path)


@pytest.mark.parametrize(
    ("ignored", "files"),
    [
        ("data\n", {"a.py", "log/b.log"}),
        ("**/*.log\n# note\n", {"a.py", "data/big.bin"}),
        ("*\n!a.py\n!log/b*\n", {"a.py", "log/b.log"}),
    ],
)
def test_what_docker_leaves_out_is_not_copied(
    dockerfile: Import, tmp_path: Path, ignored: str, files: set[str]
) -> None:
    for name in ("a.py", "data/big.bin", "log/b.log", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    draft = dockerfile("COPY . /app", **{".dockerignore": ignored})
    names = {each.removeprefix("files/") for each in draft.files}
    assert names - {"Dockerfile", ".dockerignore"} == files
    assert notes(draft) == []
