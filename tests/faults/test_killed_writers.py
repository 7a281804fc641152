"""A command that is killed leaves whole files, and succeeds when it is repeated."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lumicontainer.api.new_files import write_folder
from lumicontainer.core.model.files import LayerFile
from lumicontainer.errors import InputError
from lumicontainer.frontends.edf import write_squashfs
from lumicontainer.frontends.owned import MARK, OwnFile, write_files

from ..unit.cache.test_store import killed_everywhere
from ..unit.verify.test_inspect import HELLO, made

NAMES = ("mine.yaml", "layers/mine/layer.yaml", "layers/mine/install.sh")
RECIPE = {name: LayerFile(name, 0o644, name.encode()) for name in NAMES}


def write_recipe(folder: Path) -> None:
    write_folder(folder, RECIPE)


def write_module(folder: Path) -> None:
    script = OwnFile(folder / "programs/run", f"# {MARK}\n", executable=True)
    files = [script, OwnFile(folder / "programs/python", link="run"), OwnFile(folder / "m", MARK)]
    list(write_files(files))


def write_file_system(folder: Path) -> None:
    write_squashfs(folder / "mine.sif")


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder that have their final names."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("write", [write_recipe, write_module, write_file_system])
def test_a_writer_that_is_killed_leaves_whole_files_and_can_be_repeated(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    (tmp_path / "image").mkdir()
    whole = tmp_path / "whole"
    image = made(tmp_path / "image", json.dumps(HELLO)).read_bytes()

    def prepare(name: str) -> Path:
        folder = tmp_path / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if write is write_file_system:
            (folder / "mine.sif").write_bytes(image)
        # One schema to write shows as much as all.
        for schema in [*whole.glob("schemas/*")][1:]:
            (folder / "schemas").mkdir(exist_ok=True)
            shutil.copy(schema, folder / "schemas")
        return folder

    prepare(whole.name)
    write(whole)
    expected = files(whole)
    folder = prepare("killed")
    for _ in killed_everywhere(lambda: write(folder)):
        assert files(folder).items() <= expected.items()
        with suppress(InputError):  # All files were written, and another recipe would hide them.
            write(folder)
        assert files(folder) == expected
        if write is write_file_system:
            assert [path for path in folder.iterdir() if path.name[0] == "."] == []
        prepare(folder.name)


def test_a_recipe_that_differs_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("another")
    with pytest.raises(InputError, match="this file exists already"):
        write_recipe(tmp_path)
    assert files(tmp_path) == {"mine.yaml": b"another"}
