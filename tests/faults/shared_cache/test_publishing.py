"""A shared cache keeps what is published, and loses no object of others."""

import os
import shutil
import time
from pathlib import Path

import pytest

from lumicontainer.cache.objects import Entry, object_name
from lumicontainer.cache.shared import contents, publish
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError
from lumicontainer.system.terminal.progress import Progress

from ...integration.people import let_in
from ...unit.cache.taking import files
from ...unit.cache.test_store import LATER, killed_everywhere, put
from ..test_folders_of_others import STRANGER, given_away


def test_no_published_object_is_replaced(published: Entry, own: Cache, team: SharedCache) -> None:
    before = files(team.root / published.name)
    assert not team.publish(put(own, content=b"other"))
    assert files(team.root / published.name) == before
    assert team.names() == [published.name]


def test_a_key_that_cannot_sign_is_reported_and_nothing_is_published(
    own: Cache, team: SharedCache, tmp_path: Path
) -> None:
    with pytest.raises(HostError, match=r"(?s)cannot sign\n.*hint: name the file of an SSH key"):
        team.publish(put(own), str(tmp_path / "missing"))
    assert list(team.root.iterdir()) == []


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
