"""The owners and modes of an image's files are taken from the list of unsquashfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lumicontainer.build.runtimes.unpack_file import mode_of, settle

LIST = """\
drwxr-xr-x 0/0                42 2025-01-01 00:00 /
-rwsr-xr-x 0/0                 3 2025-01-01 00:00 /su
-rw-r----- 0/42                3 2025-01-01 00:00 /shadow of all
lrwxrwxrwx 0/7                 4 2025-01-01 00:00 /link -> /etc
-rw-r--r-- 9/9                 3 2025-01-01 00:00 /out/passwd
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


def test_modes_are_set_and_owners_recorded_and_links_not_followed(tmp_path: Path) -> None:
    tree, host = tmp_path / "tree", tmp_path / "host"
    for folder in (tree, host):
        folder.mkdir()
    for name in ("su", "shadow of all"):
        (tree / name).write_text("x")
    (host / "passwd").touch(mode=0o600)
    (tree / "out").symlink_to(host)
    (tree / "link").symlink_to("/etc")
    rows = list(settle(tree, LIST))
    assert rows == [f"{(tree / 'shadow of all').stat().st_ino} 0 42\n"]
    assert (tree / "su").stat().st_mode & 0o7777 == 0o4755
    assert (host / "passwd").stat().st_mode & 0o7777 == 0o600
