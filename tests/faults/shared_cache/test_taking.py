"""A shared cache gives whole objects, or nothing."""

import multiprocessing
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import ENTRY, LAYER, SUMS, Entry, object_name
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.store import Cache

from ...unit.cache.taking import files, refused, taken
from ...unit.cache.test_store import put

FORKING = multiprocessing.get_context("fork")


@pytest.mark.parametrize("umask", [0o007, 0o077, 0o022])
def test_an_object_is_taken_byte_for_byte_and_only_its_publisher_can_change_it(
    own: Cache, team: SharedCache, other: Cache, umask: int
) -> None:
    before = os.umask(umask)
    try:
        entry = put(own)
        assert team.publish(entry)
    finally:
        os.umask(before)
    folder = team.root / entry.name
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o640}
    assert folder.stat().st_mode & 0o777 == 0o750
    copy = taken(team, entry.name, other)
    assert files(copy.folder) == files(entry.folder) == files(folder)
    assert copy == other.proven(entry.name)


def test_a_flipped_byte_is_found_wherever_it_is_and_names_the_publisher(
    published: Entry, team: SharedCache, other: Cache
) -> None:
    dice, folder = random.Random(1), team.root / published.name
    whole = files(folder)
    assert {ENTRY, LAYER, SUMS} <= whole.keys()
    for name in sorted(whole) * 10:
        data = bytearray(whole[name])
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        (folder / name).write_bytes(data)
        refused(team, published.name, other, Damaged, "its publisher is")
        (folder / name).write_bytes(whole[name])
    assert taken(team, published.name, other)


def swap_name(folder: Path) -> None:
    """Put another whole object in place of one."""
    shutil.copytree(folder.parent / object_name("second", ""), folder, dirs_exist_ok=True)


def link_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def link_file(folder: Path) -> None:
    (folder / LAYER).rename(folder.parent / LAYER)
    (folder / LAYER).symlink_to(f"../{LAYER}")


def pipe(folder: Path) -> None:
    (folder / LAYER).unlink()
    os.mkfifo(folder / LAYER, 0o600)


def file_in_place(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("object")


def leave_folder(folder: Path) -> None:
    """Name a file outside the object in its sums."""
    (folder.parent / "evil").write_text("evil")
    (folder / SUMS).write_text(f"{'0' * 64}  ../evil\n")


def grow(folder: Path) -> None:
    os.truncate(folder / LAYER, 1 << 41)


@pytest.mark.parametrize(
    "change", [swap_name, link_folder, link_file, pipe, file_in_place, leave_folder, grow]
)
def test_something_else_in_place_of_an_object_is_not_taken(
    published: Entry, team: SharedCache, own: Cache, other: Cache, change: Callable[[Path], None]
) -> None:
    assert team.publish(put(own, "second", content=b"2"))
    change(team.root / published.name)
    refused(team, published.name, other, Damaged, r"\w")


def test_no_more_is_copied_than_was_counted(
    published: Entry, team: SharedCache, other: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    fstat, layer = os.fstat, (team.root / published.name / LAYER)
    size = layer.stat().st_size

    def grow_later(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        if os.path.samestat(status, layer.stat()) and status.st_size == size:
            os.truncate(layer, 1 << 30)
        return status

    monkeypatch.setattr(os, "fstat", grow_later)
    refused(team, published.name, other, Damaged, "has grown while it was read")


def test_eight_processes_that_publish_and_take_the_same_leave_one_whole_object_each(
    tmp_path: Path, team: SharedCache
) -> None:
    keys = ("one", "two", "three")

    def work(number: int) -> None:
        store = Cache(tmp_path / f"cache-{number}").open()
        for key in keys:
            team.publish(put(store, key))
            fresh = Cache(tmp_path / f"fresh-{number}").open()
            taken(team, object_name(key, ""), fresh)

    workers = [FORKING.Process(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    names = sorted(object_name(key, "") for key in keys)
    assert sorted(path.name for path in team.root.iterdir()) == names
    for number in range(8):
        fresh = Cache(tmp_path / f"fresh-{number}")
        for name in names:
            assert files(fresh.folder(name)) == files(team.root / name)
