"""The cache gives back what it was given, whole, or nothing."""

import contextlib
import itertools
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lumicontainer.cache import usage
from lumicontainer.cache.objects import ENTRY, INDEX, LAYER, SUMS, Entry, object_name
from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError
from lumicontainer.system import flock

FORK = multiprocessing.get_context("fork")
FILES = {LAYER: b"squash" * 50, INDEX: b'{"etc": ["folder"]}\n'}


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache").open()


def put(
    store: Cache, key: str = "key", *, used: float = 0, content: bytes = b"", **more: str
) -> Entry:
    """Store a small layer as a build does, with the lock for making it held."""
    about = {"key": key, "parent": "", "step": key, "kind": "layer", "inputs": {"a": 1}, **more}
    name = object_name(key, about["parent"])
    while (held := flock.exclusive(store.make_lock(name))) is None:
        os.sched_yield()
    draft = store.draft(name)
    for file, some in FILES.items():
        (draft / file).write_bytes(some + content)
    entry = store.store(draft, {**about, "seconds": f"{time.monotonic():020.9f}"})
    os.close(held)
    if used:
        os.utime(entry.folder, (used, used))
    return entry


def test_the_same_layer_on_another_base_makes_another_tree(store: Cache) -> None:
    bases = (put(store, base, content=base.encode()) for base in ("one", "two"))
    one, other = (put(store, "middle", parent=base.tree) for base in bases)
    assert one.digest == other.digest
    assert one.tree != other.tree


def content(store: Cache) -> list[str]:
    """Return all that lies among the objects, drafts too."""
    return sorted(path.name for path in (store.root / "objects").iterdir())


def reasons(store: Cache) -> list[str]:
    return [(folder / "reason").read_text() for folder in store.damaged()]


def test_what_was_stored_is_given_back(store: Cache) -> None:
    entry = put(store)
    stored = store.proven(entry.name)
    assert stored == entry
    assert stored.layer.read_bytes() == FILES[LAYER]
    assert (stored.step, stored.kind, stored.inputs) == ("key", "layer", {"a": 1})
    assert list(store.entries()) == [entry]


def test_an_entry_that_is_replaced_is_read_once_more(store: Cache) -> None:
    first = put(store)
    second = put(store, content=b"other")
    assert first.digest != second.digest
    assert list(store.entries()) == [second]


@pytest.mark.slow
def test_a_flipped_byte_is_found_wherever_it_lies(store: Cache) -> None:
    entry = put(store)
    places = [(p, n) for p in sorted(entry.folder.iterdir()) for n in range(p.stat().st_size)]
    dice = random.Random(1)
    touched = set()
    for path, place in dice.sample(places, 100):
        touched.add(path.name)
        data = bytearray(path.read_bytes())
        data[place] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        assert store.proven(entry.name) is None, f"{path.name}, byte {place}"
        assert store.names() == []
        put(store)
    assert touched == {ENTRY, INDEX, LAYER, SUMS}
    assert len(reasons(store)) == 100
    assert all(reason.strip() for reason in reasons(store))


@pytest.mark.parametrize("mark", [b"\r", b"\x0b", b"\x0c", b"\x1c"])
def test_a_line_of_the_sums_that_ends_in_another_way_is_damage(store: Cache, mark: bytes) -> None:
    sums = put(store).folder / SUMS
    sums.write_bytes(sums.read_bytes()[:-1] + mark)
    assert store.proven(sums.parent.name) is None


@pytest.mark.parametrize("file", [ENTRY, INDEX, LAYER, SUMS, "more"])
def test_a_file_that_is_missing_or_too_many_is_damage(store: Cache, file: str) -> None:
    path = put(store).folder / file
    path.touch() if file == "more" else path.unlink()
    assert store.proven(path.parent.name) is None
    assert file in reasons(store)[0]


def test_an_object_under_the_name_of_another_is_damage(store: Cache) -> None:
    entry = put(store)
    other = store.folder(object_name("other", ""))
    shutil.copytree(entry.folder, other)
    assert store.proven(other.name) is None
    assert "another object" in reasons(store)[0]
    assert store.proven(entry.name) == entry


def test_an_object_that_the_system_cannot_read_for_now_is_no_damage(store: Cache) -> None:
    entry = put(store)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, files[1]))
    try:
        with pytest.raises(HostError) as refusal:
            store.proven(entry.name)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    assert refusal.value.problems[0].where == str(entry.folder)
    assert "Too many open files" in refusal.value.problems[0].why
    assert store.damaged() == []
    assert store.proven(entry.name) is not None


def test_what_is_not_there_is_neither_given_nor_damage(store: Cache) -> None:
    assert store.proven(object_name("key", "")) is None
    assert store.damaged() == []


def test_examining_an_object_is_no_use_of_it(store: Cache) -> None:
    name = put(store, used=1000).name
    assert store.examine(name) == ""
    assert [entry.used for entry in store.entries()] == [1000]
    store.proven(name)
    assert [entry.used > 1000 for entry in store.entries()] == [True]


def killed_everywhere(work: Callable[[], object]) -> Iterator[int]:
    """Carry out a work in processes that end by SIGKILL one access to files later each time.

    Yields after each; the last one came to its end.
    """
    for number in itertools.count(2):
        process = FORK.Process(target=_work_and_die, args=(work, number))
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        yield number
        if process.exitcode == 0:
            return


def _work_and_die(work: Callable[[], object], number: int) -> None:
    accesses = itertools.count(1)

    def count(event: str, arguments: object) -> None:
        if event.startswith(("open", "os.", "shutil.")) and next(accesses) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    work()


@pytest.mark.slow
@pytest.mark.parametrize("work", ["store", "replace", "remove"])
def test_a_change_that_is_killed_leaves_a_whole_object_or_a_draft(store: Cache, work: str) -> None:
    entry = put(store)
    if work == "store":
        store.remove(entry.name)
    drafts = 0
    for _ in killed_everywhere(
        lambda: store.remove(entry.name) if work == "remove" else put(store)
    ):
        assert {each.strip(".").partition(".")[0] for each in content(store)} <= {entry.name}
        drafts += content(store) != store.names()
        store.reclaim()
        assert content(store) == store.names()
        assert store.proven(entry.name) or not store.names()
        if work == "store":
            shutil.rmtree(entry.folder, ignore_errors=True)
        else:
            put(store)
    assert drafts > 5
    assert store.damaged() == []


def test_a_draft_that_is_worked_on_is_not_reclaimed(store: Cache) -> None:
    name = object_name("key", "")
    held = flock.exclusive(store.make_lock(name))
    assert held is not None
    store.draft(name)
    store.reclaim()
    assert len(content(store)) == 1
    os.close(held)
    store.reclaim()
    assert content(store) == []


def test_what_another_node_stores_meanwhile_stays(store: Cache) -> None:
    """Locks may not exclude other nodes."""
    name = object_name("key", "")
    draft = store.draft(name)
    (draft / LAYER).write_bytes(b"later")
    first = put(store, content=b"first")
    about = {"key": "key", "parent": "", "step": "key", "kind": "layer", "inputs": {}}
    assert store.store(draft, about) == first
    assert content(store) == [name]
    assert store.proven(name) == first


LATER = 2**31 + 1e8
"""A time in 2041, as a wrong clock gives it to files."""


def test_a_rebuild_takes_no_object_for_new_that_a_wrong_clock_dated(store: Cache) -> None:
    old = put(store, content=b"old")
    os.utime(old.folder / ENTRY, (LATER, LATER))
    assert not store.made_since(old.name, time.time())
    new = put(store, content=b"new")
    assert (new.folder / LAYER).read_bytes().endswith(b"new")


@pytest.mark.parametrize("moment", [0, LATER])
def test_the_draft_of_another_node_stays_for_days(store: Cache, moment: float) -> None:
    draft = store.draft(object_name("key", ""))
    other = draft.rename(draft.with_name(draft.name.replace(os.uname().nodename, "nid000001")))
    store.reclaim()
    assert content(store) == [other.name]
    os.utime(other, (moment, moment))
    store.reclaim()
    assert content(store) == []


def put_often(store: Cache) -> None:
    for _ in range(10):
        put(store)


@pytest.mark.slow
def test_four_processes_that_store_the_same_leave_one_whole_object(store: Cache) -> None:
    processes = [FORK.Process(target=put_often, args=(store,)) for _ in range(4)]
    for process in processes:
        process.start()
    name = object_name("key", "")
    while any(process.is_alive() for process in processes):
        store.proven(name)
    assert {process.exitcode for process in processes} == {0}
    assert content(store) == [name]
    assert store.proven(name)
    assert reasons(store) == []


def test_an_object_that_a_wrong_clock_dates_in_the_future_goes_for_its_age(store: Cache) -> None:
    put(store, "wrong", used=time.time() + 1_000_000)
    put(store, "new", used=time.time() + 60)
    assert store.prune(1 << 40) == []
    assert [entry.step for entry in store.prune(1 << 40, before=time.time() - 1000)] == ["wrong"]


def test_the_least_recently_used_goes_first(store: Cache) -> None:
    for number, key in enumerate("cab", start=1000):
        put(store, key, used=number)
    size = sum(entry.size for entry in store.entries()) // 3
    would = store.prune(2 * size, dry=True)
    assert [entry.step for entry in would] == ["c"]
    assert len(store.names()) == 3
    assert [entry.step for entry in store.prune(2 * size)] == ["c"]
    assert store.proven(object_name("a", ""))
    assert [entry.step for entry in store.prune(size)] == ["b"]


def test_compiled_wheels_go_last(store: Cache) -> None:
    wheels = put(store, "wheels", used=1000, kind="wheels")
    put(store, "layer", used=2000)
    assert [entry.step for entry in store.prune(wheels.size)] == ["layer"]


def test_the_cache_holds_the_largest_image_in_use_twice(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LUMICONTAINER_CACHE_SIZE", raising=False)
    small, large = put(store, "small"), put(store, "large", content=bytes(5000))
    usage.note(store, tmp_path / "small.sif", [small], [])
    usage.note(store, tmp_path / "large.sif", [small, large], [])
    assert usage.size_limit(store, [small, large]) == usage.DEFAULT_SIZE
    monkeypatch.setattr(usage, "DEFAULT_SIZE", 1)
    assert usage.size_limit(store, [small, large]) == 2 * (small.size + large.size)
    monkeypatch.setenv("LUMICONTAINER_CACHE_SIZE", "2K")
    assert usage.size_limit(store, [small, large]) == 2048


@contextlib.contextmanager
def no_bytes() -> Iterator[None]:
    """Let no file grow meanwhile, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("named", [True, False], ids=["file", "docker"])
def test_after_a_build_the_cache_is_pruned(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE_SIZE", "0")
    _, new = put(store, "old"), put(store, "new")
    said: list[str] = []
    usage.settle(store, [new], said.append, tmp_path / "image.sif" if named else None)
    assert (store.names(), said) == ([new.name], [])
    assert [use.objects for use in usage.uses(store)] == [(new.name,)] * named


def test_after_a_build_a_full_cache_is_a_warning(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE_SIZE", "0")
    _, new = put(store, "old"), put(store, "new")
    said: list[str] = []
    with no_bytes():
        usage.settle(store, [new], said.append, tmp_path / "image.sif")
    assert store.names() == [new.name]
    assert [text.splitlines()[0] for text in said] == ["warning: cannot note an image in the cache"]
    assert "why: File too large" in said[0]


def test_after_a_build_a_cache_that_cannot_be_pruned_is_a_warning(
    store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE_SIZE", "0")
    _, new = put(store, "old"), put(store, "new")
    shutil.rmtree(store.root / "locks")
    (store.root / "locks").touch()
    said: list[str] = []
    usage.settle(store, [new], said.append)
    assert [text.splitlines()[0] for text in said] == ["warning: cannot prune the cache"]
    assert said[0].endswith("hint: lumicontainer cache prune")


def test_what_a_build_uses_or_wants_to_keep_stays(store: Cache) -> None:
    used, kept, idle = (put(store, key) for key in ("used", "kept", "idle"))
    held = flock.shared(store.use_lock(used.name))
    assert held is not None
    for dry in (True, False):
        assert store.prune(0, keep={kept.name}, dry=dry) == [idle]
    os.close(held)
    assert {entry.step for entry in store.prune(0)} == {"used", "kept"}
    assert content(store) == []


def test_a_prune_beside_another_works(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, kept = (put(store, key) for key in ("one", "other", "kept"))
    names = store.names

    def names_of_before() -> list[str]:
        before = names()
        store.remove(other.name)
        return before

    monkeypatch.setattr(store, "names", names_of_before)
    entries = list(store.entries())
    store.remove(one.name)
    assert {entry.step for entry in entries} == {"one", "kept"}
    assert all(entry.size > 300 and entry.used > 1000 for entry in entries)
    store.prune(0, keep={kept.name}, entries=entries)
    assert names() == [kept.name]


def test_a_cache_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(HostError, match=r"mode 0700\n.* chmod 700 /.*/open, or name another"):
        Cache(tmp_path / "open").open()
    assert list((tmp_path / "open").iterdir()) == []
