"""The build's list of an image's files answers as its disk does, and mounts are never listed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.elf.reader import UnreadableError
from lumicontainer.inside.image.contents import Contents
from lumicontainer.inside.image.listing import Walked, dump, load, mounts, of_layer, walk

from ...compiled import Root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = Root(tmp_path / "root")
    needed = made.library("lib/libneeded.so.1")
    made.library("lib/libuser.so", needs=[needed])
    made.write("lib/libempty.so", "")
    made.write("lib/libzeros.so", "\0" * 100)
    made.write("lib/libscript.so", "INPUT(libneeded.so.1)")
    made.write("etc/hosts", "a file")
    made.write("etc/empty", "")
    made.link("link", "etc/hosts")
    made.link("folder", "lib")
    made.link("dangling", "nowhere")
    return made.path


@pytest.fixture
def rows(root: Path) -> dict[str, Any]:
    return {f"{root}/{path}": row for path, row in load(dump(of_layer(str(root)))).items()}


def answers(files: Contents, one: Walked) -> list[object]:
    return [
        answer(files.look, one.path),
        answer(files.loadable, one),
        answer(files.readlink, one.path),
        answer(files.linked, one.path),
    ]


def answer(call: Any, asked: object) -> object:
    try:
        return call(asked)
    except OSError:
        return OSError
    except UnreadableError:
        return UnreadableError


def test_the_list_answers_as_the_disk_does(root: Path, rows: dict[str, Any]) -> None:
    listed, disk = Contents(set(), rows), Contents(set())
    every = {one.path: one for one in walk(str(root), set())}
    assert {one.path for one in listed.walk()} == every.keys()
    for one in every.values():
        size = 0 if one.is_folder() else one.size
        expected = [one._replace(size=size), *answers(disk, one)[1:]]
        assert answers(listed, one) == expected, one.path
    said = {Path(path).name: listed.loadable(one) for path, one in every.items()}
    assert said.pop("libuser.so").needed == ("libneeded.so.1",)
    assert {name: said[name] for name in said if isinstance(said[name], str)} == {
        "libempty.so": "it is empty",
        "libzeros.so": "it holds zeros where an ELF file begins",
    }
    for path in (f"{root}/folder/libuser.so", f"{root}/absent"):
        assert answer(listed.look, path) == answer(disk.look, path)


def test_mounts_are_all_but_the_image_s_own(tmp_path: Path) -> None:
    rows = ("1 0 0:1 / / ro - overlay overlay ro", r"2 1 0:2 / /my\040folder rw - tmpfs tmpfs rw")
    (tmp_path / "mountinfo").write_text("".join(f"{row}\n" for row in rows))
    assert mounts(str(tmp_path / "mountinfo")) == {"/my folder"}


def test_the_list_needs_no_disk_for_links_and_libraries(root: Path, rows: dict[str, Any]) -> None:
    listed = Contents(set(), rows)
    paths = [f"{root}/{name}" for name in ("lib/libuser.so", "lib/libzeros.so")]
    before = [answers(listed, listed.look(path)) for path in paths]
    shutil.rmtree(root)
    assert [answers(listed, listed.look(path)) for path in paths] == before
    assert listed.readlink(f"{root}/link") == "etc/hosts"


def test_what_is_mounted_is_read_from_the_disk(root: Path, rows: dict[str, Any]) -> None:
    listed = Contents({f"{root}/lib", f"{root}/link"}, rows)
    (root / "lib/libempty.so").write_text("another file")
    (root / "link").unlink()
    (root / "link").symlink_to("elsewhere")
    assert [one.path for one in listed.walk()] == [
        f"{root}/{name}" for name in ("dangling", "etc", "etc/empty", "etc/hosts", "folder")
    ]
    assert listed.look(f"{root}/lib/libempty.so").size == len("another file")
    assert listed.readlink(f"{root}/link") == "elsewhere"
    with pytest.raises(UnreadableError, match="ELF"):
        listed.linked(f"{root}/lib/libscript.so")
