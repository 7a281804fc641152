"""A shared cache gives objects of those whom the user trusts."""

import hashlib
import shutil
from pathlib import Path

import pytest

from lumicontainer.cache.objects import LAYER, SUMS, Entry
from lumicontainer.cache.shared import trusted
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.shared.source import Untrusted
from lumicontainer.cache.shared.trusted import Vouchers
from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError, InputError

from ...programs import run
from ...unit.cache.signers import allowed, new_key
from ...unit.cache.taking import files, refused, taken
from ...unit.cache.test_store import put
from ..test_folders_of_others import STRANGER, given_away
from .conftest import ME


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


def test_a_malformed_list_of_objects_or_one_that_others_could_change_is_refused(
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
