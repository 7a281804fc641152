"""The walk over an image leaves out what is mounted, and finds files that the loader refuses."""

from pathlib import Path

import pytest

from lumicontainer.inside.elf.reader import Elf
from lumicontainer.inside.image.walk import loadable, may_be_loaded, mounts, walk

from ...compiled import Root


def test_mounts_are_all_but_the_image_s_own(tmp_path: Path) -> None:
    rows = ("1 0 0:1 / / ro - overlay overlay ro", r"2 1 0:2 / /my\040folder rw - tmpfs tmpfs rw")
    (tmp_path / "mountinfo").write_text("".join(f"{row}\n" for row in rows))
    assert mounts(str(tmp_path / "mountinfo")) == {"/my folder"}


def test_what_is_mounted_is_not_walked(tmp_path: Path) -> None:
    for name in ("lib/library", "mounted/file", "etc"):
        (tmp_path / name).mkdir(parents=True)
    seen = {one.path for one in walk(str(tmp_path), {f"{tmp_path}/mounted"})}
    assert seen == {f"{tmp_path}/{name}" for name in ("lib", "lib/library", "etc")}


def test_the_kind_of_a_path_is_known_without_asking_for_its_mode(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (one,) = walk(str(tmp_path), set())
    (tmp_path / "file").unlink()
    assert one.is_file()
    with pytest.raises(FileNotFoundError):
        _ = one.mode


@pytest.mark.parametrize(
    ("path", "looked_at"),
    [("lib/module.py", False), ("bin/started.py", True), ("lib/program", True)],
)
def test_of_the_texts_only_those_that_may_be_started_are_looked_at(
    tmp_path: Path, path: str, looked_at: bool
) -> None:
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).touch(0o755)
    assert [may_be_loaded(one) for one in walk(str(tmp_path), set()) if one.is_file()] == [
        looked_at
    ]


@pytest.mark.slow
def test_the_loader_s_description_or_refusal_of_each_file_is_known(tmp_path: Path) -> None:
    made = Root(tmp_path / "root")
    needed = made.library("lib/libneeded.so.1")
    made.library("lib/libuser.so", needs=[needed])
    made.write("lib/libempty.so", "")
    made.write("lib/libzeros.so", "\0" * 100)
    made.write("lib/libscript.so", "INPUT(libneeded.so.1)")
    made.write("etc/empty", "")
    made.link("link", "etc/hosts")
    verdicts = {Path(one.path).name: loadable(one) for one in walk(str(made.path), set())}
    user = verdicts.pop("libuser.so")
    assert isinstance(user, Elf)
    assert user.needed == ("libneeded.so.1",)
    assert {name: why for name, why in verdicts.items() if isinstance(why, str)} == {
        "libempty.so": "it is empty",
        "libzeros.so": "it holds zeros where an ELF file begins",
    }
    assert verdicts["libscript.so"] is None
