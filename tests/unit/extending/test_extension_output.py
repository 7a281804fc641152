"""The file of an extension and its lock replace the old ones of the same output, and nothing
else.
"""

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.errors import InputError, LumicontainerError
from lumicontainer.extending import extension
from lumicontainer.extending.container import working_folder
from lumicontainer.extending.extension import lock_path
from lumicontainer.extending.record import NAME, Record, read_record


def test_the_lock_has_a_name_by_the_standard() -> None:
    assert lock_path(Path("/x/my.packages.sqsh")) == Path("/x/pylock.my-packages.toml")


def extension_at(output: Path, lock: str, command: str = "") -> None:
    """Write an extension of nothing, whose record names a lock."""
    digest = hashlib.sha256(lock.encode()).hexdigest()
    folder = output.with_name("tree")
    folder.mkdir()
    record = Record("", "mine.sif", "", {}, (), command, lock=digest)
    (folder / NAME).write_bytes(record.content())
    subprocess.run(["mksquashfs", folder, output, "-quiet", "-no-progress"], check=True)


@pytest.mark.slow
def test_a_lock_of_the_same_output_is_replaced(tmp_path: Path) -> None:
    output = tmp_path / "mine.sqsh"
    extension.check_output(output, [])
    extension_at(output, "by an older program")
    for lock in ("by an older program", f"{extension.head(output)}changed"):
        lock_path(output).write_text(lock)
        extension.check_output(output, [])
    output.unlink()
    extension.check_output(output, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "url", ["https://me:S3cr3t-1@x.example/a.whl", "https://x.example/a.whl?token=S3cr3t-2"]
)
def test_a_record_that_holds_a_secret_is_read_without_it(tmp_path: Path, url: str) -> None:
    """Files of older versions may hold one."""
    extension_at(tmp_path / "x.sqsh", "", f"lumicontainer extend a.sif 'a @ {url}' -o x.sqsh")
    record = read_record(tmp_path / "x.sqsh")
    assert "x.example/a.whl" in record.command_to_repeat()
    assert "S3cr3t" not in f"{record}{record.command_to_repeat()}"


def test_a_folder_is_no_place_for_an_extension_and_none_itself(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write the extension\n.*\n.* it is a folder\n"):
        extension.check_output(tmp_path, [])
    with pytest.raises(InputError, match="expected the file of an extension, got a folder"):
        read_record(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("put", "why"),
    [
        (lambda path: path.symlink_to("/nonexistent/x"), "No such file or directory"),
        (os.mkfifo, "got a pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "got a device"),
        (lambda path: path.write_text("text"), "SQUASHFS"),
    ],
    ids=["a link to nothing", "a pipe", "a device", "a text"],
)
def test_nothing_but_an_extension_or_its_lock_is_replaced(
    tmp_path: Path, put: Callable[[Path], object], why: str
) -> None:
    output = tmp_path / "mine.sqsh"
    put(output)
    with pytest.raises(InputError, match="the output is not an extension") as refused:
        extension.check_output(output, [])
    assert why in refused.value.problems[0].why
    output.unlink()
    put(lock_path(output))
    with pytest.raises(LumicontainerError, match="lock"):
        extension.check_output(output, [])


@pytest.mark.slow
def test_a_call_that_writes_nothing_removes_what_killed_ones_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path))
    output = tmp_path / "mine.sqsh"
    with working_folder() as used:
        for left in (used.with_name("extension+-killed"), tmp_path / ".mine.sqsh.partial-killed"):
            left.mkdir() if "+" in left.name else left.touch()
        extension.remove_leftovers_of(output)
        assert list(tmp_path.rglob("*killed*")) == []
        assert used.is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("output", ["mine.sqsh", "a.b.sqsh"])
def test_a_lock_of_another_output_or_program_stays(tmp_path: Path, output: str) -> None:
    mine, others = tmp_path / output, {"mine.sqsh": "mine.sqfs", "a.b.sqsh": "a-b.sqsh"}
    for text in ('lock-version = "1.0"\n', extension.head(mine.with_name(others[output]))):
        lock_path(mine).write_text(text)
        with pytest.raises(InputError, match="the name of the lock is taken") as refused:
            extension.check_output(mine, [])
        (problem,) = refused.value.problems
        assert (problem.where, bool(problem.hint)) == (str(lock_path(mine)), True)
    extension_at(mine, "its own")
    with pytest.raises(InputError, match="the name of the lock is taken"):
        extension.check_output(mine, [])


def test_a_lock_that_is_an_input_stays(tmp_path: Path) -> None:
    output, link = tmp_path / "mine.sqsh", tmp_path / "link.toml"
    lock_path(output).write_text(extension.head(output))
    link.symlink_to(lock_path(output))
    with pytest.raises(InputError, match="the lock of the output is an input"):
        extension.check_output(output, [link])
