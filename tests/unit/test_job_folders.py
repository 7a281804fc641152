"""The folder of a job is removed when nobody needs it."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lumicontainer.jobs import follow
from lumicontainer.jobs.command import folder_in


def job_that_ends_well(parent: Path) -> None:
    with folder_in(parent, "small-") as folder:
        (folder / follow.ENDED).write_text("0\n")


def leave_old(parent: Path, count: int) -> None:
    for number in range(count):
        old = parent / f"old-{number}"
        old.mkdir()
        os.utime(old, (0, 0))


def test_jobs_that_begin_at_once_remove_the_same_old_folders(tmp_path: Path) -> None:
    leave_old(tmp_path, 300)
    together = threading.Barrier(8)

    def begin(_: int) -> None:
        together.wait(30)
        job_that_ends_well(tmp_path)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(begin, range(8))) == [None] * 8
    assert list(tmp_path.iterdir()) == []
