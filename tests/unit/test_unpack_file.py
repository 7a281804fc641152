"""The owners and modes of an image's files are taken from the list of unsquashfs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lumicontainer.build.tree.foreign.settle import settle
from lumicontainer.build.tree.foreign.tree import Tree
from lumicontainer.build.tree.foreign.unpack_file import (
    mode_of,
    note_owners,
    read_rows,
    require_names,
)
from lumicontainer.errors import InputError

LIST = """\
drwxr-x--- 0/0                42 2025-01-01 00:00 /
-rwsr-xr-x 0/0                 3 2025-01-01 00:00 /su
-rw-r----- 0/42                3 2025-01-01 00:00 /shadow of all
lrwxrwxrwx 0/7                 4 2025-01-01 00:00 /link -> /etc
drwxr-xr-x 0/0                 3 2025-01-01 00:00 /out
-rw-r--r-- 9/9                 3 2025-01-01 00:00 /out/passwd
-rw-r--r-- 9/9                 3 2025-01-01 00:00 /link
dr-xr-xr-x 3/0                 3 2025-01-01 00:00 /closed
crw-r--r-- 0/0              1, 3 2025-01-01 00:00 /null
"""


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        *(("rwxr-xr-x", 0o755), ("rw-r-----", 0o640), ("rwsr-xr-x", 0o4755)),
        *(("rwxrwsr-t", 0o3775), ("rwSr-Sr-T", 0o7644), ("---------", 0)),
    ],
)
def test_a_mode_is_read(text: str, mode: int) -> None:
    assert mode_of(text) == mode


def test_each_kind_of_a_path_is_read() -> None:
    rows = list(read_rows(LIST))
    assert "".join(row.kind for row in rows) == "d--ld--dc"
    assert [row.path for row in rows][3:5] == ["/link", "/out"]
    assert rows[-1].path == "/null"


def test_modes_are_set_and_owners_recorded_and_links_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, host = tmp_path / "tree", tmp_path / "host"
    for folder in (tree, host, tree / "closed"):
        folder.mkdir()
    for name in ("su", "shadow of all"):
        (tree / name).write_text("x")
    (tree / "closed").chmod(0o555)
    (host / "passwd").touch(mode=0o600)
    (tree / "out").symlink_to("../host")
    (tree / "link").symlink_to("/etc")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    image = Tree(tree)
    with pytest.raises(InputError, match="it leads out of the image's tree"):
        note_owners(image, read_rows(LIST))
    without = [row for row in read_rows(LIST) if not row.path.startswith("/out/")]
    note_owners(image, without)
    owners = {"shadow of all": "0 42", "link": "0 7", "closed": "3 0"}
    expected = {f"{(tree / name).lstat().st_ino} {own}\n" for name, own in owners.items()}
    assert set(settle(image)) == expected
    modes = {name: (tree / name).stat().st_mode & 0o7777 for name in ("", "su", "closed")}
    assert modes == {"": 0o750, "su": 0o4755, "closed": 0o555}
    assert (host / "passwd").stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["/a", "/a/../b"], "it leads out of the image's tree"),
        (["/..", "/../home"], "it leads out of the image's tree"),
        (["/a//b"], "it leads out of the image's tree"),
        (["/a/./b"], "it leads out of the image's tree"),
        (["/a", "/b", "/a"], "the image has it twice"),
        (["/a\n", "/b", "/a"], "the image has it twice"),
        (["/" + "a" * 256], "a name of more than 255 bytes"),
        (["/" + "a/" * 201 + "a"], "more than 200 folders"),
    ],
    ids=lambda each: repr(each)[:20],
)
def test_names_by_which_unsquashfs_would_write_elsewhere_are_refused(
    names: list[str], why: str
) -> None:
    with pytest.raises(InputError, match=why):
        require_names("\n".join(names).split("\n"))


def test_the_names_of_an_image_and_their_rests_are_taken() -> None:
    require_names(["/", "//a", "//a/b", "..", "rest/../of a name", "", "/a c"])
