"""The walk over an image leaves out what is mounted, and finds files that the loader refuses."""

from pathlib import Path

import pytest

from lumicontainer.inside.elf.reader import Elf
from lumicontainer.inside.image.walk import loadable, mounts, walk

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
