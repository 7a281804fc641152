"""A shared cache gives whole objects of trusted publishers, or nothing."""

import hashlib
import multiprocessing
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import ENTRY, LAYER, SUMS, Entry, object_name
from lumicontainer.cache.shared import contents, publish, trusted
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.shared.source import Untrusted
from lumicontainer.cache.shared.trusted import Vouchers
from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError, InputError
from lumicontainer.system import flock
from lumicontainer.system.terminal.progress import Progress

from ..integration.people import let_in
from ..programs import run
from ..unit.cache.test_store import LATER, killed_everywhere, put
from .test_folders_of_others import STRANGER, given_away

ME = os.geteuid()
FORKING = multiprocessing.get_context("fork")


@pytest.fixture
def own(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "own").open()


@pytest.fixture
def other(tmp_path: Path) -> Cache:
    """Return the cache of somebody who takes."""
    return Cache(tmp_path / "other").open()


@pytest.fixture
def team(tmp_path: Path) -> SharedCache:
    """Return a shared cache for a group, of which this user alone is trusted."""
    root = tmp_path / "team"
    root.mkdir()
    root.chmod(0o3770)
    return SharedCache(root, frozenset({ME}))


@pytest.fixture
def published(own: Cache, team: SharedCache) -> Entry:
    entry = put(own)
    assert team.publish(entry)
    return entry


def taken(team: SharedCache, name: str, store: Cache) -> Entry:
    """Take an object as a build does, with the lock for making it held."""
    with flock.attempt(store.make_lock(name)) as held:
        assert held
        return team.take(name, store)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(team: SharedCache, name: str, store: Cache, error: type[Exception], why: str) -> Any:
    """See that an object is not taken, and leaves nothing; return the error."""
    with pytest.raises(error, match=why) as raised:
        taken(team, name, store)
    assert list((store.root / "objects").iterdir()) == []
    return raised.value


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


def test_no_published_object_is_replaced(published: Entry, own: Cache, team: SharedCache) -> None:
    before = files(team.root / published.name)
    assert not team.publish(put(own, content=b"other"))
    assert files(team.root / published.name) == before
    assert team.names() == [published.name]


def test_an_object_of_a_user_who_is_not_named_is_not_taken(
    published: Entry, team: SharedCache, other: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_away(team.root / published.name / LAYER)
    assert team.entry(published.name) is None
    why = f"its owner {STRANGER} is not trusted"
    error = refused(team, published.name, other, Untrusted, why)
    assert f"export LUMICONTAINER_SHARED_CACHE_OWNERS={STRANGER}" in error.hint
    monkeypatch.setenv(trusted.OWNERS, str(STRANGER))
    run(["chmod", "a+rx", team.root / published.name])
    trusting = SharedCache(team.root, trusted.trusted_owners())
    assert taken(trusting, published.name, other).digest == published.digest


@pytest.mark.parametrize("file", ["", LAYER, SUMS])
def test_an_object_that_a_group_may_write_to_is_not_taken(
    published: Entry, team: SharedCache, other: Cache, file: str
) -> None:
    path = team.root / published.name / file
    path.chmod(path.stat().st_mode | 0o020)
    refused(team, published.name, other, Untrusted, "others than its owner .* may write to it")


def test_a_user_who_does_not_exist_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(trusted.OWNERS, "root, nobody-at-all 17")
    with pytest.raises(InputError, match="user 'nobody-at-all' not found"):
        trusted.trusted_owners()


def new_key(tmp_path: Path, name: str) -> str:
    path = tmp_path / name
    done = run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path])
    assert done.returncode == 0, done.stderr
    return str(path)


def allowed(tmp_path: Path, key: str, options: str = "") -> Path:
    path = tmp_path / "signers"
    path.write_text(f"alice@example.org {options} {Path(f'{key}.pub').read_text()}")
    path.chmod(0o600)
    return path


def test_a_signed_object_is_taken_whoever_owns_it(
    own: Cache, team: SharedCache, other: Cache, tmp_path: Path
) -> None:
    key = new_key(tmp_path, "alice")
    entry = put(own)
    assert team.publish(entry, key)
    strict = SharedCache(team.root, frozenset(), Vouchers(allowed(tmp_path, key)))
    shown = strict.entry(entry.name)
    assert shown is not None
    assert shown.publisher == "alice@example.org"
    assert files(taken(strict, entry.name, other).folder) == files(entry.folder)


@pytest.mark.parametrize("fault", ["another key", "other sums", "another use", "no signature"])
def test_a_signature_that_does_not_fit_proves_nothing(
    own: Cache, team: SharedCache, other: Cache, tmp_path: Path, fault: str
) -> None:
    keys = new_key(tmp_path, "alice"), new_key(tmp_path, "mallory")
    entry = put(own)
    assert team.publish(entry, keys[fault == "another key"])
    folder = team.root / entry.name
    if fault == "other sums":
        (folder / SUMS).write_bytes((folder / SUMS).read_bytes().replace(b"a", b"b"))
    if fault == "no signature":
        (folder / "sums.sig").write_text("")
    use = 'namespaces="git"' * (fault == "another use")
    strict = SharedCache(team.root, frozenset(), Vouchers(allowed(tmp_path, keys[0], use)))
    refused(strict, entry.name, other, Untrusted, "none of the allowed signers signed it")


def test_allowed_signers_that_others_could_change_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = allowed(tmp_path, new_key(tmp_path, "alice"))
    monkeypatch.setenv(trusted.SIGNERS, str(path))
    assert trusted.find_allowed_signers() == path
    path.chmod(0o660)
    with pytest.raises(HostError, match=f"chmod go-w {path}"):
        trusted.find_allowed_signers()


def listing(tmp_path: Path, text: str) -> Path:
    """Write a list of trusted objects."""
    path = tmp_path / "list"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_listed_object_is_taken_whoever_owns_it(
    published: Entry,
    team: SharedCache,
    other: Cache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = run(["sha256sum", team.root / published.name / SUMS])
    monkeypatch.setenv(trusted.DIGESTS, str(listing(tmp_path, f"\n{done.stdout}")))
    strict = SharedCache(team.root, frozenset(), Vouchers.named())
    assert taken(strict, published.name, other).publisher == trusted.LISTED


def test_an_object_that_changed_since_it_was_listed_is_not_taken(
    published: Entry, team: SharedCache, own: Cache, other: Cache
) -> None:
    listed = hashlib.sha256((team.root / published.name / SUMS).read_bytes()).hexdigest()
    shutil.rmtree(team.root / published.name)
    team.publish(put(own, content=b"other"))
    strict = SharedCache(team.root, frozenset(), Vouchers(digests=frozenset({listed})))
    refused(strict, published.name, other, Untrusted, "is not trusted")


def test_a_list_of_objects_that_is_none_or_that_others_could_change_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = listing(tmp_path, f"{'0' * 64}  sums\nabc  sums\n")
    monkeypatch.setenv(trusted.DIGESTS, str(path))
    with pytest.raises(InputError, match=rf"where: {path}:2:1\n .*expected a sha256"):
        trusted.find_trusted_digests()
    path.chmod(0o660)
    with pytest.raises(HostError, match=f"chmod go-w {path}"):
        trusted.find_trusted_digests()


def test_a_registry_among_the_owners_is_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(trusted.OWNERS, f"{STRANGER},oci://registry.example.org/layers")
    assert trusted.trusted_owners() == {0, ME, STRANGER}
    assert trusted.trusted_registries() == {"oci://registry.example.org/layers"}


def test_a_key_that_cannot_sign_is_reported_and_nothing_is_published(
    own: Cache, team: SharedCache, tmp_path: Path
) -> None:
    with pytest.raises(HostError, match=r"(?s)cannot sign\n.*hint: name the file of an SSH key"):
        team.publish(put(own), str(tmp_path / "missing"))
    assert list(team.root.iterdir()) == []


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


def test_a_publish_that_is_killed_leaves_a_whole_object_or_a_draft(
    own: Cache, team: SharedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, drafts = put(own), 0
    for _ in killed_everywhere(lambda: team.publish(entry)):
        assert team.names() in ([], [entry.name])
        for name in team.names():
            assert files(team.root / name) == files(entry.folder)
            shutil.rmtree(team.root / name)
        drafts += len(list(team.root.iterdir()))
        team.remove_drafts()
        later = time.time() + 7200
        monkeypatch.setattr(time, "time", lambda moment=later: moment)
        team.remove_drafts()
        monkeypatch.undo()
        assert list(team.root.iterdir()) == []
    assert drafts > 10


def test_a_draft_that_another_publish_works_on_is_not_removed(team: SharedCache) -> None:
    draft = team.root / f".{object_name('key', '')}-x"
    draft.mkdir()
    team.remove_drafts()
    assert draft.is_dir()


@pytest.mark.parametrize("name", [".my-venv", ".vscode-server/data", f".{'0' * 64}"])
def test_hidden_folders_of_the_user_are_no_drafts(team: SharedCache, name: str) -> None:
    folder = team.root / name
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        os.utime(each, (0, 0))
    team.remove_drafts()
    assert folder.is_dir()


@pytest.mark.parametrize("moment", [0, LATER])
@pytest.mark.parametrize("form", [".{}-x", ".{}.gone-17"])
def test_what_a_killed_publish_or_prune_left_is_removed(
    team: SharedCache, form: str, moment: float
) -> None:
    folder = team.root / form.format(object_name("key", ""))
    folder.mkdir()
    os.utime(folder, (moment, moment))
    team.remove_drafts()
    assert not folder.exists()


def test_who_may_not_change_an_object_cannot_remove_it(published: Entry, team: SharedCache) -> None:
    folder = team.root / published.name
    given_away(folder)
    team.root.chmod(0o777)
    let_in(team.root.parent)
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setresuid(*[STRANGER - 1] * 3)
        (theirs,) = contents.published(team)
        problem = contents.remove(theirs, dry=False)
        os._exit(problem is None or f"only its owner {STRANGER} may" not in problem.why)
    assert os.waitpid(child, 0)[1] == 0
    assert files(folder) == files(published.folder)


def test_what_is_removed_while_it_is_published(own: Cache, team: SharedCache) -> None:
    """An object that is gone is passed over; a shared cache that is gone is an error."""
    entries = [put(own, key) for key in ("one", "two", "three")]
    with Progress("plain") as progress:
        outcomes = publish.publish(entries, own, team, progress, key="")
        assert next(outcomes).entry == entries[0]
        own.remove(entries[1].name)
        assert next(outcomes).entry == entries[2]
        outcomes = publish.publish(entries, own, team, progress, key="")
        next(outcomes)
        shutil.rmtree(team.root)
        with pytest.raises(FileNotFoundError):
            list(outcomes)


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
