"""A file is written whole, however many write it."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lumicontainer.system.files.write import write_whole


def test_two_threads_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write(letter: bytes) -> None:
        for _ in range(500):
            write_whole(path, letter * 1000)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, (b"a", b"b")))
    assert path.read_bytes() in (b"a" * 1000, b"b" * 1000)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_the_umask_decides_who_may_read_and_run_a_file(
    tmp_path: Path, umask: int, mode: int
) -> None:
    plain, program = tmp_path / "plain", tmp_path / "program"
    before = os.umask(umask)
    try:
        write_whole(plain, b"")
        write_whole(program, b"", executable=True)
    finally:
        os.umask(before)
    assert plain.stat().st_mode & 0o777 == mode
    assert program.stat().st_mode & 0o777 == mode | (mode & 0o444) >> 2
