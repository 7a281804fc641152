"""A secret is found in what a step hands on, whatever that is."""

import os
import subprocess
import sys
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_IMODE
from types import SimpleNamespace

import pytest

from lumicontainer.building.secrets import read_secrets
from lumicontainer.errors import InputError
from lumicontainer.sandbox.failures.scrub import _PIECE, IMAGE, scrub
from lumicontainer.sandbox.tree.capture import leaking
from lumicontainer.sandbox.tree.index import FILE, GONE, Row
from lumicontainer.sandbox.tree.snapshot import TreeState, scan, tree_state
from lumicontainer.system.terminal import masking

from ...namespaces import ordinary

SECRETS = (b"canary-5e3f9b1c77d2",)


@pytest.fixture(autouse=True)
def hidden() -> Iterator[None]:
    masking.hide(SECRETS)
    yield
    masking._hidden.clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        lambda at, canary: (at / "x").write_text(f"a {canary} b"),
        lambda at, canary: (at / f"x-{canary}").touch(),
        lambda at, canary: (at / f"x-{canary}").mkdir(),
        lambda at, canary: (at / "x").symlink_to(f"/nowhere/{canary}"),
        lambda at, canary: (at / "x").write_bytes(b64encode(b"bob:" + canary.encode())),
        lambda at, canary: mark(at / "x", "user.note", canary),
        lambda at, canary: mark(at / "x", f"user.{canary}", "note"),
    ],
)
def test_a_secret_is_found_in_a_tree(tmp_path: Path, attack: Callable[[Path, str], object]) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/clean").write_text("nothing\n")
    attack(tmp_path / "etc", SECRETS[0].decode())
    rows = tree_state(tmp_path, scan(tmp_path), TreeState({}, {})).rows
    (place,) = leaking(tmp_path, rows)
    assert place.startswith("/etc/x")
    assert leaking(tmp_path, {**rows, place[1:]: Row(GONE)}) == []


def test_a_large_file_is_searched_in_pieces(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    with (tree / "large").open("wb") as file:
        file.seek(_PIECE * 16 - 5)
        file.write(SECRETS[0])
    tracemalloc.start()
    try:
        assert leaking(tree, {"large": Row(FILE)}) == ["/large"]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < _PIECE * 8


def mark(path: Path, name: str, value: str) -> None:
    path.touch()
    os.setxattr(path, name, value.encode())


def test_what_is_kept_of_a_failure_is_scrubbed_of_secrets(tmp_path: Path) -> None:
    canary, folder = SECRETS[0].decode(), tmp_path / "kept/deep"
    folder.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_text(canary)
    (folder / "site.sh").write_text(f"export A=https://me:{canary}@a.example/\nexport B=x\n")
    (folder / f"name-{canary}").mkdir()
    (folder / f"name-{canary}" / "inner").write_bytes(b"\0" + canary.encode())
    (folder / "link").symlink_to(f"/x/{canary}")
    (folder / "out").symlink_to(outside)
    mark(folder / "marked", "user.note", canary)
    os.setxattr(folder, "user.note", canary.encode())
    os.mkfifo(folder / "fifo")
    scrub(str(tmp_path / "kept"), 0)
    assert (folder / "site.sh").read_text() == "export A=https://me:***@a.example/\nexport B=x\n"
    assert (folder / "link").readlink() == Path("/x/***")
    assert os.listxattr(folder / "marked") == os.listxattr(folder) == []
    for at, folders, names in os.walk(tmp_path / "kept"):
        assert canary not in "".join([at, *folders, *names])
    (inner,) = folder.glob("name-*/inner")
    assert inner.read_bytes() == b"\0***"
    assert outside.read_text() == canary


def scrubbed(folder: Path, *start: str) -> None:
    """Scrub a folder in a separate process."""
    command = [sys.executable, "-m", "lumicontainer.sandbox.failures.scrub", str(folder), "0"]
    done = subprocess.run(
        [*start, *command], input=masking.dumped(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o444, 0, 0o200, 0o4555])
def test_an_ordinary_user_scrubs_files_of_any_mode(tmp_path: Path, mode: int) -> None:
    texts = {"secret": SECRETS[0], "clean": b"nothing"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    mark(tmp_path / "secret", "user.note", SECRETS[0].decode())
    for name in texts:
        (tmp_path / name).chmod(mode)
    scrubbed(tmp_path, *ordinary())
    assert {S_IMODE((tmp_path / name).stat().st_mode) for name in texts} == {mode}
    for name in texts:
        (tmp_path / name).chmod(0o600)
    assert os.listxattr(tmp_path / "secret") == []
    assert (tmp_path / "secret").read_bytes() == b"***"
    assert (tmp_path / "clean").read_bytes() == b"nothing"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o555, 0o311, 0])
def test_an_ordinary_user_scrubs_folders_of_any_mode(tmp_path: Path, mode: int) -> None:
    canary, folder = SECRETS[0].decode(), tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text(canary)
    (folder / f"name-{canary}").mkdir()
    (folder / "link").symlink_to(canary)
    os.setxattr(folder, "user.note", canary.encode())
    folder.chmod(mode)
    scrubbed(tmp_path, *ordinary())
    assert S_IMODE(folder.stat().st_mode) == mode
    folder.chmod(0o700)
    assert os.listxattr(folder) == []
    assert (folder / "file").read_text() == "***"
    assert (folder / "link").readlink() == Path("***")
    assert len(list(folder.glob("name-[*][*][*]-*"))) == 1


@pytest.mark.slow
def test_a_file_larger_than_the_memory_is_scrubbed(tmp_path: Path) -> None:
    size = 1 << 28
    with (tmp_path / "large").open("wb") as file:
        file.seek(size)
        file.write(b"a " + SECRETS[0] + b" b")
    scrubbed(tmp_path, "prlimit", f"--data={size >> 2}", "--")
    with (tmp_path / "large").open("rb") as file:
        file.seek(size)
        assert file.read() == b"a *** b"


def test_a_secret_is_replaced_wherever_it_is_in_a_large_file(tmp_path: Path) -> None:
    masking.hide([b"canary-5e3f9b1c77d2 and more", b"more of it"])
    text = b" canary-5e3f9b1c77d2 canary-5e3f9b1c77d2 and more of it "
    content = text + b"x" * (_PIECE - 9 - len(text)) + text + b"y" * (_PIECE + 7) + text
    (tmp_path / "file").write_bytes(content)
    scrub(str(tmp_path), 0)
    assert (tmp_path / "file").read_bytes() == content.replace(text, b" *** *** ")


def test_a_copy_of_the_image_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for folder in (tmp_path, tmp_path / "deep"):
        (folder / IMAGE).write_bytes(SECRETS[0])
    scrub(str(tmp_path), 0)
    assert (tmp_path / IMAGE).read_bytes() == SECRETS[0]
    assert (tmp_path / "deep" / IMAGE).read_bytes() == b"***"


def test_what_was_not_changed_since_is_not_read_twice(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(SECRETS[0])
    scrub(str(tmp_path), (tmp_path / "old").stat().st_ctime + 1)
    assert (tmp_path / "old").read_bytes() == SECRETS[0]


@pytest.mark.parametrize("name", ["a,b", "a:b"])
def test_a_file_whose_name_the_engine_would_divide_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("canary-5e3f9b1c77d2")
    plan = SimpleNamespace(steps=[SimpleNamespace(name="greet", secrets=("token",))])
    with pytest.raises(InputError, match="separate options of the engine"):
        read_secrets([f"id=token,src={file}"], plan)


def test_a_user_that_is_not_there_has_no_files() -> None:
    plan = SimpleNamespace(steps=[SimpleNamespace(name="greet", secrets=("token",))])
    with pytest.raises(InputError, match="cannot use the file of a secret"):
        read_secrets(["id=token,src=~nosuchuser/token"], plan)
