"""Objects and notes of a cache that hold anything: taken whole, or refused in words, at once."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cache import explain, usage
from lumicontainer.cache.integrity import Damaged, sha256
from lumicontainer.cache.objects import ENTRY, INDEX, LAYER, SUMS, Entry
from lumicontainer.cache.shared.shared import FOLDER, SharedCache
from lumicontainer.cache.shared.source import Untrusted
from lumicontainer.cache.store import Cache
from lumicontainer.cli import main
from lumicontainer.errors import HostError
from lumicontainer.sandbox.tree.index import read_index
from lumicontainer.system import flock

from ..unit.cache.test_store import put
from ..unit.cpu import within

SECONDS = 60.0
WHOLE = {"key": "key", "parent": "", "step": "x", "kind": "layer", "inputs": {"a": 1}}
VALUES = (
    *(None, True, -1, 1.5, 10**400, "", "x" * 9000, "\x1b[2J\0", "\ud800", "../..", [], {}),
    *([[]], {"": None}, ["a"], {"files": {"install.sh": "xyz"}}, {"compiled": {"a": []}}),
)
"""Values in place of a fact of an object."""
TEXTS = (
    *(b"", b"null", b"[]", b"NaN", b"\0", b"\xff\xfe{}", b"{", b'{"key": 1e999}', b"9" * 5000),
    *(b"[" * 200_000, b'{"a":' * 200_000, b'{"key":"key","key":"other"}', b" " * 100_000),
)
"""Contents in place of a file."""
ROWS = (
    *(b"\n", b"x", b"0  ../evil\n", b"0  a\0b\n", b"0  \n", b"0  .\n", b"0  ..\n", b"\xff  a\n"),
    *(b"0  sums\n", b"0  a\n0  a\n", b"0  " + b"a" * 9000 + b"\n", b"0  a/b\n" * 10_000),
    b"0  layer.squashfs\r\n",
)
"""Contents in place of sums."""


def texts() -> Iterator[bytes]:
    """Yield what an object could say about itself."""
    yield from TEXTS
    for name in WHOLE:
        yield from (json.dumps({**WHOLE, name: value}).encode() for value in VALUES)
        yield json.dumps({each: value for each, value in WHOLE.items() if each != name}).encode()
    whole = json.dumps(WHOLE).encode()
    yield from (whole[:at] for at in range(len(whole)))


def other_kinds(path: Path) -> Iterator[Callable[[], object]]:
    """Yield what puts something else in the place of a file."""
    target = path.parent.parent / "target"
    target.write_bytes(path.read_bytes())
    yield lambda: os.mkfifo(path)
    yield path.mkdir
    yield lambda: path.symlink_to(target)
    yield lambda: path.symlink_to("/dev/zero")
    yield lambda: path.symlink_to(path.name)
    yield lambda: path.touch(0o000)
    yield lambda: None


def summed(folder: Path) -> None:
    """Write the sums of what is in an object, so that only its meaning is damaged."""
    (folder / SUMS).unlink()
    sums = [f"{sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / SUMS).write_text("".join(sums))


def damages(folder: Path) -> Iterator[None]:
    """Damage an object in many ways, one after the other."""
    for content in texts():
        (folder / ENTRY).write_bytes(content)
        yield
        summed(folder)
        yield
    for content in (*TEXTS, *ROWS):
        (folder / SUMS).write_bytes(content)
        yield
    for name in (ENTRY, SUMS, LAYER, INDEX):
        saved = (folder / name).read_bytes()
        for put_other in other_kinds(folder / name):
            (folder / name).unlink()
            put_other()
            yield
            remove(folder / name)
            (folder / name).write_bytes(saved)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


@pytest.fixture
def own(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "own").open()


@pytest.fixture
def team(tmp_path: Path) -> SharedCache:
    root = tmp_path / "team"
    root.mkdir(0o700)
    return SharedCache(root, frozenset({os.geteuid()}))


def restored(folder: Path, whole: Mapping[str, bytes]) -> None:
    """Put an object back as it was."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for name, content in whole.items():
        (folder / name).write_bytes(content)


def use(entry: Entry | None) -> None:
    """Use the facts of an object as a build and ``cache explain`` do."""
    if entry is None:
        return
    needed = explain.Needed("x", "layer", "k", {"files": {"install.sh": [0o644, "0"]}}, "", "")
    changes = explain.changes(needed, entry)
    json.dumps([entry.tree, entry.shown, entry.key, *map(str, changes)])
    str(entry.inputs.get("compiled"))


def test_no_object_of_a_shared_cache_fails_a_build_in_other_words(
    own: Cache, team: SharedCache, tmp_path: Path
) -> None:
    entry = put(own)
    assert team.publish(entry)
    folder, other = team.root / entry.name, Cache(tmp_path / "other").open()
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    taken = refused = 0
    with within(SECONDS):
        for _ in damages(folder):
            use(team.entry(entry.name))
            team.doubt(entry.name, "x")
            team.damage(entry.name)
            try:
                with flock.attempt(other.make_lock(entry.name)):
                    use(team.take(entry.name, other))
                taken += 1
            except (Damaged, Untrusted, OSError) as error:
                assert str(error)
                refused += 1
            shutil.rmtree(other.folder(entry.name), ignore_errors=True)
    assert refused > 300
    assert taken < refused
    restored(folder, whole)
    assert team.take(entry.name, other).digest == entry.digest


def test_no_object_of_the_own_cache_fails_a_build_in_other_words(own: Cache) -> None:
    entry = put(own)
    folder = entry.folder
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    with within(SECONDS):
        for _ in damages(folder):
            use(own.entry(entry.name))
            own.prune(1 << 40)
            assert own.proven(entry.name) is None or folder.is_dir()
            if not folder.exists():
                moved = max(own.damaged(), key=lambda path: path.name)
                (moved / "reason").unlink()
                moved.rename(folder)
    restored(folder, whole)
    assert own.proven(entry.name) == entry


def test_no_note_of_an_image_fails_a_command_in_other_words(own: Cache) -> None:
    entry = put(own)
    usage.note(own, Path("/nowhere/x.sif"), [entry], [entry])
    (note,) = (own.root / "images").iterdir()
    facts = json.loads(note.read_bytes())
    values = [json.dumps({**facts, name: value}).encode() for name in facts for value in VALUES]
    with within(SECONDS):
        for content in (*TEXTS, *values):
            note.write_bytes(content)
            assert not any(each.counts() for each in usage.uses(own))
            usage.size_limit(own, [entry])
        for put_other in other_kinds(note):
            note.unlink()
            put_other()
            assert not any(each.counts() for each in usage.uses(own))
            remove(note)
            note.touch()


ROW = ["file", 0o644, 0, 0, "0" * 64, ""]
OTHERS = (None, [], {}, 1.5, True)
INDEXES = (
    *TEXTS,
    *(
        json.dumps({"a": [*ROW[:at], value, *ROW[at + 1 :]]}).encode()
        for at in range(len(ROW))
        for value in (*OTHERS, "x" if isinstance(ROW[at], int) else 1)
    ),
    *(json.dumps({name: ROW}).encode() for name in ("../a", "a/../../b", "/etc/passwd", "a\0b")),
    *(json.dumps({"a": row}).encode() for row in ([], [1], "file", {}, None, [*ROW, 1])),
)


@pytest.mark.parametrize("number", range(len(INDEXES)))
def test_an_index_of_a_layer_that_is_damaged_is_refused(tmp_path: Path, number: int) -> None:
    path = tmp_path / INDEX
    path.write_bytes(INDEXES[number])
    with pytest.raises(HostError, match="the index of a layer is damaged"):
        read_index(path)


ACTIONS: tuple[Any, ...] = (
    *(["list"], ["list", "--json"], ["verify"]),
    *(["list", "--shared"], ["verify", "--shared"], ["prune", "--shared", "--max-size", "1G"]),
)


@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b"0  a\0b\n", b"", json.dumps({**WHOLE, "step": "\ud800"}).encode()]
)
@pytest.mark.parametrize("name", [ENTRY, SUMS])
def test_no_action_of_the_cache_is_a_bug_over_a_damaged_object(
    name: str,
    content: bytes,
    own: Cache,
    team: SharedCache,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(own.root))
    monkeypatch.setenv(FOLDER, str(team.root))
    entry = put(own)
    assert team.publish(entry)
    for folder in (entry.folder, team.root / entry.name):
        (folder / name).write_bytes(content)
    for words in ACTIONS:
        code = main(["cache", *words])
        assert code in (0, 1, 2, 3), (words, capfd.readouterr().err)
