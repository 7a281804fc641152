"""Content of a foreign image file never becomes a command or a path of the host."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.building.layers.additions import read_answers
from lumicontainer.errors import InputError
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.sandbox.tree.foreign.repack import repack

Pack = Callable[[Path], Source]


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    """Pack a folder with a compression that images do not have."""

    def pack_folder(folder: Path) -> Source:
        image = tmp_path / "image"
        command = ["mksquashfs", folder, image, "-comp", "lz4", "-b", "1M", "-quiet"]
        subprocess.run([*command, "-no-progress"], check=True)
        return Source(image)

    return pack_folder


def test_a_name_with_a_newline_starts_no_command(tmp_path: Path, pack: Pack) -> None:
    folder, victim = tmp_path / "tree", tmp_path / "victim"
    folder.mkdir()
    (folder / f"x F 0 644 0 0 touch {victim.name}\ny").touch()
    with pytest.raises(InputError, match="its name or its target is invalid"):
        repack(pack(folder), tmp_path / "packed", tmp_path / "listed")
    assert not (tmp_path / "packed").exists()


def test_a_name_that_would_be_a_comment_is_refused(tmp_path: Path, pack: Pack) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/# x").touch()
    with pytest.raises(InputError, match="its name or its target is invalid"):
        repack(pack(tmp_path / "tree"), tmp_path / "packed", tmp_path / "listed")


def test_a_target_with_a_newline_starts_no_command(tmp_path: Path, pack: Pack) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "link").symlink_to("a\nx F 0 644 0 0 touch victim")
    with pytest.raises(InputError, match="its name or its target is invalid"):
        repack(pack(folder), tmp_path / "packed", tmp_path / "listed")


def test_blanks_and_quotes_in_names_stay(tmp_path: Path, pack: Pack) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    names = ["a b", 'c"d', "e\\f", "-h", "\udcff"]
    for name in names:
        (folder / name).write_text(name.encode(errors="surrogateescape").hex())
    repack(pack(folder), tmp_path / "packed", tmp_path / "listed")
    children = read_squashfs(tmp_path / "packed").root.children
    assert {name.decode(errors="surrogateescape") for name in children} == {*names}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        json.dumps({"python": "/usr/bin/python3"}),
        json.dumps({"python": "/usr/bin/python3\n", "files": {}}),
        json.dumps({"python": "python3", "files": {}}),
        json.dumps({"python": "/usr/bin/python3", "files": {"/etc/x": 1}}),
        json.dumps({"python": "/usr/bin/python3", "files": []}),
        *(
            json.dumps({"python": "/usr/bin/python3", "files": {path: "x"}})
            for path in ("", "/", "/..", "//x", "x", "/a\nb", "/a\0b", "/\ud800", f"/{'a' * 300}")
        ),
        json.dumps({"python": "/usr/bin/python3", "files": {"/x": "\ud800"}}),
        "[" * 100_000,
    ],
)
def test_an_odd_answer_of_an_images_python_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "answers.json").write_text(text)
    with pytest.raises(InputError, match="gave an invalid answer"):
        read_answers(tmp_path)
