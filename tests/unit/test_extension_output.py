"""The file of an extension and its lock replace those of the same output, and nothing else."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending import extension
from lumicontainer.extending.extension import lock_path
from lumicontainer.extending.record import NAME, Record, read_record


def test_the_lock_has_a_name_by_the_standard() -> None:
    assert lock_path(Path("/x/my.packages.sqsh")) == Path("/x/pylock.my-packages.toml")


def extension_at(output: Path, lock: str) -> None:
    """Write an extension of nothing, whose record names a lock."""
    digest = hashlib.sha256(lock.encode()).hexdigest()
    folder = output.with_name("tree")
    folder.mkdir()
    record = Record("", "mine.sif", "", {}, (), "", lock=digest)
    (folder / NAME).write_bytes(record.content())
    subprocess.run(["mksquashfs", folder, output, "-quiet", "-no-progress"], check=True)


def test_a_lock_of_the_same_output_is_replaced(tmp_path: Path) -> None:
    output = tmp_path / "mine.sqsh"
    extension.check_output(output, [])
    extension_at(output, "by an older program")
    for lock in ("by an older program", f"{extension.head(output)}changed"):
        lock_path(output).write_text(lock)
        extension.check_output(output, [])
    output.unlink()
    extension.check_output(output, [])


def test_a_folder_is_no_place_for_an_extension_and_none_itself(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write the extension\n.*\n.* it is a folder\n"):
        extension.check_output(tmp_path, [])
    with pytest.raises(InputError, match="expected the file of an extension, got a folder"):
        read_record(tmp_path)


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
