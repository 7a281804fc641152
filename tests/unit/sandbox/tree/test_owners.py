"""Changes of owners that an ordinary user cannot make are recorded, and devices are refused."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.sandbox.tree.owners import read_owners
from lumicontainer.sandbox.tree.snapshot import Owners

pytestmark = pytest.mark.slow

BY_DESCRIPTOR = "import os; os.chown(os.open('file', os.O_RDONLY), 5, 6)"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "file").touch()
    return folder


def recorded(tree: Path, script: str) -> tuple[subprocess.CompletedProcess[str], Owners]:
    """Run a shell script in the tree, and return what is recorded."""
    record = tree.parent / "record"
    module = [sys.executable, "-m", "lumicontainer.sandbox.tree.owners"]
    words = [*module, str(tree), str(tree.parent / "state"), str(record), "sh", "-ec", script]
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)
    return done, read_owners(record)


@pytest.mark.parametrize(
    ("script", "owner"),
    [
        ("chown 5:6 file", (5, 6)),
        ("chown 5:6 file && chown :7 file", (5, 7)),
        ("ln -s file link && chown 5:6 link", (5, 6)),
        (f'python3 -c "{BY_DESCRIPTOR}"', (5, 6)),
    ],
    ids=["path", "group alone", "through a link", "descriptor"],
)
def test_an_owner_is_recorded_and_not_set(tree: Path, script: str, owner: tuple[int, int]) -> None:
    done, owners = recorded(tree, script)
    assert done.returncode == 0, done.stderr
    info = (tree / "file").stat()
    assert owners[info.st_ino] == owner
    assert (info.st_uid, info.st_gid) == (os.getuid(), os.getgid())


def test_the_owner_of_a_link_is_its_own(tree: Path) -> None:
    _, owners = recorded(tree, "ln -s file link && chown -h 5:6 link")
    assert owners == {(tree / "link").lstat().st_ino: (5, 6)}


def test_a_file_does_not_get_the_owner_of_a_removed_one(tree: Path) -> None:
    script = "chown 5:6 file && rm file && for n in $(seq 50); do touch $n; done"
    _, owners = recorded(tree, script)
    assert owners == {}


def test_root_is_recorded_only_where_another_group_would_be_inherited(tree: Path) -> None:
    (tree / "team").mkdir()
    (tree / "team").chmod(0o2775)
    script = 'own=$(id -u):$(id -g) && touch team/given && chown "$own" file team/given'
    _, owners = recorded(tree, script)
    assert owners == {(tree / "team/given").stat().st_ino: (0, 0)}


def test_a_new_owner_ends_setuid_as_in_the_kernel(tree: Path) -> None:
    recorded(tree, "chmod 6755 file && chown 5 file")
    assert (tree / "file").stat().st_mode & 0o7777 == 0o755


def test_a_device_is_refused_and_the_exit_code_is_the_commands(tree: Path) -> None:
    done, _ = recorded(tree, "! mknod null c 1 3; mkfifo fifo; exit 7")
    assert done.returncode == 7
    assert "Operation not supported" in done.stderr
    assert (tree / "fifo").is_fifo()
    assert not (tree / "null").exists()


def test_paths_of_calls_that_proot_does_not_know_are_not_used(tree: Path) -> None:
    done, _ = recorded(tree, "strace -f -e trace=statx stat -c %s file")
    assert done.stdout == "0\n"
    assert "ENOSYS" in done.stderr


CALL = """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
"""
OTHER_WAYS = {
    "a ring of calls": "print(libc.syscall(425, 4, bytes(200)), ctypes.get_errno())",
    "the memory of others": "print(libc.syscall(310, 1, 0, 0, 0, 0, 0), ctypes.get_errno())",
    "the convention x32": "print(libc.syscall(0x40000027), ctypes.get_errno())",
    "the convention i386": (
        "code = mmap.mmap(-1, 4096, prot=7)\n"
        r"code.write(b'\xb8\x14\x00\x00\x00\xcd\x80\xc3')  # getpid" + "\n"
        "start = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
        "print(-1, -ctypes.CFUNCTYPE(ctypes.c_int)(start)())"
    ),
}


@pytest.mark.parametrize("script", OTHER_WAYS.values(), ids=OTHER_WAYS)
def test_calls_that_proot_does_not_see_do_nothing(tree: Path, script: str) -> None:
    (tree / "call.py").write_text(CALL + script)
    done, _ = recorded(tree, f"{sys.executable} call.py")
    assert done.stdout == f"-1 {errno.ENOSYS}\n", done.stderr
