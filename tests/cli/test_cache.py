"""``lumicontainer cache``: what it reports, and what a prune leaves."""

import errno
import json
import os
import time
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.api.caching import MARK_LIFE
from lumicontainer.cache import objects, usage
from lumicontainer.cache.explain import MISSING, walk
from lumicontainer.cache.store import UNREADABLE, Cache
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.image import sif
from lumicontainer.image.inspect import KEY_LABEL
from lumicontainer.system import flock, units
from lumicontainer.system.files.regular import open_no_link

from .conftest import Ask, Hello, Run, succeeded


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of the cache, which is not there yet."""
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LUMICONTAINER_CACHE_SIZE", "1M")
    return tmp_path / "cache"


@pytest.fixture
def store(place: Path) -> Cache:
    return Cache(place).open()


def put(store: Cache, about: dict[str, Any], *, size: int = 1000) -> objects.Entry:
    draft = store.draft(objects.object_name(about["key"], about["parent"]))
    (draft / objects.LAYER).write_bytes(about["key"].encode().ljust(size))
    return store.store(draft, about)


def layer(store: Cache, step: str, *, used: float = 0) -> objects.Entry:
    about = {"key": step, "step": step, "kind": "layer", "parent": "", "inputs": {}}
    entry = put(store, about)
    moment = time.time() - used
    os.utime(entry.folder, (moment, moment))
    return entry


def build(store: Cache, folder: Path) -> list[objects.Entry]:
    """Put into the cache what a build of the recipe ``hello`` puts there."""
    plan = planned(resolve(open_catalog(folder).materials("hello", "workstation")))
    while True:
        entries = list(store.entries())
        missing = [part for part in walk(plan, entries) if part.state == MISSING]
        if not missing:
            return entries
        fields = ("step", "kind", "key", "inputs")
        about = {field: getattr(missing[0], field) for field in fields}
        put(store, {**about, "parent": missing[0].below})


def make_image(path: Path, key: str) -> Path:
    """Write what looks like an image, with its key."""
    attributes = {"labels": {KEY_LABEL: key}}
    layout = sif.layout("", {"data": {"attributes": attributes}, "type": "container"})
    path.write_bytes(b"x" * (layout.offset + 5000))
    sif.complete(path, layout, sif.hash_root(path, layout).finish(5000))
    return path


def test_an_empty_cache_is_reported_and_not_made(lumicontainer: Run, ask: Ask, place: Path) -> None:
    for action in ("list", "verify", "prune"):
        done = lumicontainer("cache", action)
        assert (done.returncode, done.stderr) == (0, "")
        assert str(place) in done.stdout
    assert ask("cache", "list")["objects"] == []
    assert ask("cache", "prune")["removed"] == []
    assert not place.exists()


def test_list_prints_step_kind_size_age_and_total(lumicontainer: Run, store: Cache) -> None:
    both = layer(store, "python", used=7300), layer(store, "base", used=200)
    *rows, total = lumicontainer("cache", "list").stdout.splitlines()
    assert rows[1].split()[:2] == ["base", "layer"]
    assert rows[1].endswith("3 min ago")
    assert rows[2].split()[0] == "python"
    assert rows[2].endswith("2 h ago")
    size = units.size(sum(entry.size for entry in both))
    assert total == f"2 objects, {size} of at most 1.0 MiB, in {store.root}"


def test_files_of_packages_are_listed_and_pruned_as_layers_are(
    lumicontainer: Run, ask: Ask, store: Cache
) -> None:
    layer(store, "base", used=100)
    folder = store.root / "packages"
    folder.mkdir()
    for name, age in (("0", 200), ("1", 50)):
        file = folder / (name * 64)
        file.write_bytes(bytes(5000))
        os.utime(file, (time.time() - age,) * 2)
    for name in (f".{'2' * 64}.partial-x", f".{'2' * 64}.partial-x.log", "mine"):
        (folder / name).touch()
    size = sum(each.size for each in store.entries())
    content = ask("cache", "list")
    assert (content["downloads"], content["bytes"]) == (10_000, size + 10_000)
    assert " and 9.8 KiB of packages for extensions, " in lumicontainer("cache", "list").stdout
    limit = ("cache", "prune", "--max-size", str(size + 5000))
    assert "would remove files of packages: 1\n" in lumicontainer(*limit, "--dry-run").stdout
    assert len(list(folder.iterdir())) == 5
    assert "removed files of packages: 1\n" in lumicontainer(*limit).stdout
    assert {path.name for path in folder.iterdir()} == {"1" * 64, "mine"}
    pruned = ask("cache", "prune", "--max-size", "0")
    assert (pruned["bytes"], pruned["left"], len(pruned["removed"])) == (size + 5000, 0, 1)
    assert {path.name for path in folder.iterdir()} == {"mine"}


def test_list_names_images_that_use_an_object(ask: Ask, store: Cache, tmp_path: Path) -> None:
    shared, top, idle = (layer(store, step) for step in ("shared", "top", "idle"))
    image = make_image(tmp_path / "an image.sif", top.key)
    usage.note(store, image, (shared, top), ())
    objects = {each["step"]: each["images"] for each in ask("cache", "list")["objects"]}
    assert objects == {"shared": [str(image)], "top": [str(image)], idle.step: []}
    make_image(image, "another")
    assert not any(each["images"] for each in ask("cache", "list")["objects"])
    # The image uses the wheels that were installed in its layers, too.
    wheels = {"key": "w", "step": "x", "kind": "wheels", "parent": "p", "inputs": {}}
    put(store, wheels)
    top = put(store, {**wheels, "key": "top", "kind": "layer", "inputs": {"compiled": "w"}})
    usage.note(store, make_image(image, "top"), (top,), store.entries())
    used = [each for each in ask("cache", "list")["objects"] if each["images"]]
    assert {each["kind"] for each in used} == {"wheels", "layer"}


@pytest.mark.parametrize("objects", [[[1]], [{}], [None], 1, {}])
def test_a_note_with_wrong_values_is_no_bug(ask: Ask, store: Cache, objects: Any) -> None:
    """A user's editor or a disk may change it."""
    top = layer(store, "top")
    usage.note(store, make_image(store.root / "image.sif", top.key), (top,), ())
    (use,) = usage.uses(store)
    use.note.write_text(json.dumps({**json.loads(use.note.read_bytes()), "objects": objects}))
    assert [each["images"] for each in ask("cache", "list")["objects"]] == [[]]


def test_verify_finds_nothing_in_a_whole_cache(lumicontainer: Run, store: Cache) -> None:
    layer(store, "base", used=5000)
    done = lumicontainer("cache", "verify")
    assert (done.returncode, done.stdout) == (0, f"1 object whole, in {store.root}\n")
    assert "base" in done.stderr
    assert [time.time() - entry.used > 4000 for entry in store.entries()] == [True]


@pytest.mark.parametrize("cache_of", ["a file", "/dev/null"])
@pytest.mark.parametrize("action", ["list", "verify", "prune"])
def test_a_cache_that_is_not_a_folder_is_refused(
    lumicontainer: Run, place: Path, monkeypatch: pytest.MonkeyPatch, action: str, cache_of: str
) -> None:
    place.touch(mode=0o700)
    named = str(place) if cache_of == "a file" else cache_of
    monkeypatch.setenv("LUMICONTAINER_CACHE", named)
    done = lumicontainer("cache", action)
    hint = "name another place with LUMICONTAINER_CACHE"
    error = f"error: the cache is not a folder\n  where: {named}\n   hint: {hint}\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", error)


def test_verify_moves_damage_aside(lumicontainer: Run, ask: Ask, store: Cache) -> None:
    layer(store, "whole")
    broken, nameless = layer(store, "broken"), layer(store, "nameless")
    broken.layer.write_bytes(b"?")
    (nameless.folder / objects.ENTRY).unlink()
    done = lumicontainer("cache", "verify")
    assert done.returncode == 1
    for text in (
        f"damaged: broken: {objects.LAYER} has changed",
        f"damaged: {nameless.name[:12]}: its files differ",
        "1 object whole",
        "the next build makes them again",
    ):
        assert text in done.stdout
    assert [each["step"] for each in ask("cache", "list")["objects"]] == ["whole"]
    assert "2 damaged objects moved aside" in lumicontainer("cache", "list").stdout
    assert lumicontainer("cache", "verify").returncode == 0
    layer(store, "broken").layer.write_bytes(b"?")
    done = lumicontainer("cache", "verify", "--json")
    printed = json.loads(done.stdout)
    assert (done.returncode, printed["whole"]) == (1, 1)
    (damaged,) = printed["damaged"]
    assert damaged["step"] == "broken"
    assert "has changed" in damaged["why"]


def test_prune_removes_the_oldest_until_the_rest_fits(ask: Ask, store: Cache) -> None:
    for age, step in enumerate(("new", "old", "older")):
        layer(store, step, used=age * 100)
    one = ask("cache", "list")["bytes"] // 3
    assert ask("cache", "prune")["removed"] == []
    planned = ask("cache", "prune", "--max-size", one, "--dry-run")
    assert {each["step"] for each in planned["removed"]} == {"old", "older"}
    assert len(ask("cache", "list")["objects"]) == 3
    done = ask("cache", "prune", "--max-size", one)
    assert {**planned, "dry_run": False} == done
    assert [each["step"] for each in ask("cache", "list")["objects"]] == ["new"]


def test_prune_removes_what_was_not_used_for_days(ask: Ask, store: Cache) -> None:
    for step, days in (("new", 1), ("old", 3)):
        layer(store, step, used=days * 86_400)
    assert [each["step"] for each in ask("cache", "prune", "--max-age", 2)["removed"]] == ["old"]


def test_prune_to_nothing_leaves_what_a_build_uses(lumicontainer: Run, store: Cache) -> None:
    used, idle = layer(store, "used"), layer(store, "idle")
    held = flock.shared(store.use_lock(used.name))
    assert held is not None
    size = units.size(idle.size)
    done = lumicontainer("cache", "prune", "--max-size", "0")
    os.close(held)
    assert done.returncode == 0
    assert f"removed {idle.step}, {size}" in done.stdout
    assert "running builds use it" in done.stdout
    assert "are free at" in done.stdout
    assert store.names() == [used.name]


def test_prune_removes_what_serves_nobody(ask: Ask, store: Cache, tmp_path: Path) -> None:
    entry, broken = layer(store, "whole"), layer(store, "broken")
    (broken.folder / objects.ENTRY).unlink()
    for name in ("gone", "there"):
        usage.note(store, make_image(tmp_path / name, entry.key), (entry,), ())
    (tmp_path / "gone").unlink()
    (store.root / "images" / ("f" * 64)).write_text("{")
    store.draft("d" * 64)
    young, old = "1" * 64, "2" * 64
    for mark, age in ((young, 0), (old, MARK_LIFE + 60)):
        store.note_passed(mark)
        os.utime(store.root / "held" / mark, (time.time() - age,) * 2)
    assert ask("cache", "prune")["leftovers"] == {
        "damaged objects": 1,
        "notes of images that are gone": 2,
        "old marks of checks": 1,
    }
    assert [path.name for path in (store.root / "objects").iterdir()] == [entry.name]
    assert [use.image for use in usage.uses(store)] == [str(tmp_path / "there")]
    assert store.damaged() == []
    assert store.has_passed(young)
    assert not store.has_passed(old)


Unreadable = Callable[[str, str], objects.Entry]


@pytest.fixture
def unreadable(store: Cache, monkeypatch: pytest.MonkeyPatch) -> Unreadable:
    """Store objects with a file that the system cannot open, as on a disk with bad blocks."""
    bad = set[Path]()

    def open_or_fail(path: Path) -> BufferedReader:
        if path in bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return open_no_link(path)

    def store_unreadable(step: str, file: str) -> objects.Entry:
        entry = layer(store, step)
        bad.add(entry.folder / file)
        return entry

    for module in ("store", "integrity"):
        monkeypatch.setattr(f"lumicontainer.cache.{module}.open_no_link", open_or_fail)
    return store_unreadable


@pytest.mark.parametrize("file", [objects.ENTRY, objects.LAYER])
def test_verify_names_what_cannot_be_read_and_leaves_it(
    lumicontainer: Run, store: Cache, unreadable: Unreadable, file: str
) -> None:
    entry = unreadable("base", file)
    done = lumicontainer("cache", "verify")
    shown = "base" if file == objects.LAYER else entry.name[:12]
    assert done.returncode == 1
    assert f"cannot be read: {shown}: Input/output error\n" in done.stdout
    assert f"  where: {entry.folder}\n" in done.stdout
    assert f"    hint: {UNREADABLE}\n" in done.stdout
    assert "were moved" not in done.stdout
    printed = json.loads(lumicontainer("cache", "verify", "--json").stdout)
    assert (printed["damaged"], len(printed["unreadable"])) == ([], 1)
    assert store.names() == [entry.name]


def test_prune_removes_what_cannot_be_read(ask: Ask, store: Cache, unreadable: Unreadable) -> None:
    unreadable("base", objects.LAYER)
    unreadable("python", objects.ENTRY)
    content = ask("cache", "list")
    assert ([each["step"] for each in content["objects"]], content["unreadable"]) == (["base"], 1)
    done = ask("cache", "prune", "--max-size", 0)
    assert [each["step"] for each in done["removed"]] == ["base"]
    assert done["leftovers"] == {"objects that cannot be read": 1}
    assert list((store.root / "objects").iterdir()) == []


def test_prune_leaves_files_of_the_user(ask: Ask, store: Cache) -> None:
    """Any private folder of the user can be named as the cache."""
    names = ("images/pytorch.sif", "images/run/results", f"images/{'0' * 64}/layer", "bad/notes")
    names += ("held/old", "listings/rows", "objects/.git/config", "objects/data/rows")
    files = [store.root / name for name in names]
    for path in files:
        path.parent.mkdir(exist_ok=True)
        path.write_text("data")
        os.utime(path, (0, 0))
    assert ask("cache", "prune", "--max-size", 0)["leftovers"] == {}
    assert [path for path in files if not path.exists()] == []


def test_explain_names_the_input_that_made_a_step_miss(
    lumicontainer: Run, ask: Ask, hello: Hello, store: Cache
) -> None:
    *_, folder = words = ("cache", "explain", *hello())
    build(store, folder)
    explanation = ask(*words)
    states = {part["name"]: part["state"] for part in explanation["parts"]}
    assert states == dict.fromkeys(("base", "greet", "lumicontainer"), "cached")
    assert explanation["missing"] is None
    assert "missing" not in lumicontainer(*words).stdout
    words += ("--set", "greet.times=2")
    done = succeeded(lumicontainer(*words))
    assert "'greet' is missing" in done.stdout
    assert done.stdout.splitlines()[-1] == "  values.times: 1 → 2"
    explanation = ask(*words)
    assert explanation["missing"] == "greet"
    assert explanation["differences"] == [{"input": "values.times", "before": 1, "now": 2}]


def test_explain_says_that_nothing_is_cached(lumicontainer: Run, hello: Hello, place: Path) -> None:
    done = succeeded(lumicontainer("cache", "explain", *hello()))
    assert "'base' is missing: the cache has no object of this name" in done.stdout
    assert not place.exists()
