"""``extend -r pyproject.toml`` takes packages from where uv does, or refuses the file."""

from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending.reading.additions import Additions, read_additions

INDEX = "https://packages.example.org/simple"
OWN = f'[[tool.uv.index]]\nname = "own"\nurl = "{INDEX}"\n'


def read(folder: Path, needs: str, more: str) -> Additions:
    """Return what a project adds that needs one package."""
    file = folder / "pyproject.toml"
    file.write_text(f'[project]\nname = "m"\ndependencies = ["{needs}"]\n{more}')
    return read_additions([], [file], [])


def sources(of: str) -> str:
    return f"[tool.uv.sources]\nMy_Fork = {of}\n"


@pytest.mark.parametrize("revision", ["rev", "tag", "branch"])
def test_a_package_of_git_is_taken_from_there(tmp_path: Path, revision: str) -> None:
    of = f'{{ git = "https://example.org/f.git", {revision} = "v1", subdirectory = "py" }}'
    additions = read(tmp_path, "my-fork[fast]>1; python_version > '3'", sources(of))
    (reference,) = additions.references
    assert reference.name == "my-fork"
    assert (reference.git, reference.revision) == ("https://example.org/f.git", "v1")
    assert (reference.subdirectory, reference.extras) == ("py", "[fast]")
    assert reference.marker
    assert additions.lines == ()


def test_a_package_of_git_is_taken_from_where_poetry_does(tmp_path: Path) -> None:
    of = '{ git = "https://example.org/f.git", tag = "v1", develop = true }'
    table = f"[tool.poetry.dependencies]\npython = '>=3.9'\nmy-fork = {of}\n"
    (reference,) = read(tmp_path, "my-fork", table).references
    assert (reference.git, reference.revision) == ("https://example.org/f.git", "v1")


def test_a_package_of_a_folder_is_taken_from_there(tmp_path: Path) -> None:
    library = tmp_path / "libs/my-fork"
    library.mkdir(parents=True)
    (library / "pyproject.toml").write_text('[project]\nname = "my-fork"\nversion = "1"\n')
    (reference,) = read(tmp_path, "my-fork", sources('{ path = "libs/my-fork" }')).references
    assert reference.path == str(library)


@pytest.mark.parametrize(
    "of",
    [
        "{ workspace = true }",
        '{ index = "own" }',
        '[{ git = "https://example.org/f", marker = "sys_platform == \'linux\'" }]',
        '{ git = "https://example.org/f", marker = "sys_platform == \'linux\'" }',
        '{ git = "https://me:S3cr3t@example.org/f" }',
        '{ url = "https://example.org/f-1.whl?token=S3cr3t" }',
        "{ odd = 1 }",
    ],
)
def test_a_package_of_another_place_is_refused(tmp_path: Path, of: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, "my-fork", OWN + sources(of))
    assert "S3cr3t" not in str(refused.value)


def test_the_packages_of_pytorch_are_the_images_own(tmp_path: Path) -> None:
    index = f"{OWN.replace(INDEX, 'https://download.pytorch.org/whl/cu124')}explicit = true\n"
    additions = read(tmp_path, "my-fork", f'{index}{sources("""{ index = "own" }""")}')
    assert additions.lines == ("my-fork",)
    assert additions.indexes == ()


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (OWN, "extra-index-url"),
        (f"{OWN}default = true\n", "index-url"),
        (f'[tool.uv]\nextra-index-url = ["{INDEX}"]\n', "extra-index-url"),
        (f'[[tool.poetry.source]]\nname = "own"\nurl = "{INDEX}"\n', "extra-index-url"),
    ],
)
def test_an_index_of_a_project_is_asked(tmp_path: Path, more: str, name: str) -> None:
    assert read(tmp_path, "rich", more).indexes == ((name, INDEX),)


def test_an_index_with_a_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, "rich", OWN.replace("https://", "https://me:S3cr3t@"))
    assert "S3cr3t" not in str(refused.value)
