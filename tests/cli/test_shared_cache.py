"""The output and exit codes of the commands for a shared cache."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from lumicontainer.cache.store import Cache

from ..faults.test_folders_of_others import STRANGER, given_away
from ..namespaces import as_root, owned, prepared
from ..programs import run
from .conftest import Ask, Hello, Run, refused, succeeded
from .test_cache import build

Words = tuple[object, ...]
STEPS = ["base", "greet", "lumicontainer"]


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a shared cache that the environment names."""
    folder = tmp_path / "team"
    folder.mkdir()
    monkeypatch.setenv("LUMICONTAINER_SHARED_CACHE", str(folder))
    return folder


@pytest.fixture
def built(hello: Hello, team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Words:
    """Return the words that name a recipe, whose objects are in the own cache."""
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    *_, folder = words = hello()
    build(Cache(tmp_path / "cache").open(), folder)
    return words


@pytest.fixture
def published(
    lumicontainer: Run, built: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Words:
    """Publish these objects, and name an empty cache."""
    succeeded(lumicontainer("cache", "publish", *built))
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "empty-cache"))
    return built


def test_publish_counts_what_is_new_and_there(lumicontainer: Run, built: Words, team: Path) -> None:
    done = lumicontainer("cache", "publish", *built)
    assert (done.returncode, done.stdout) == (0, f"3 published: {team}\n")
    publication = json.loads(lumicontainer("cache", "publish", "--all", "--json").stdout)
    assert sorted(each["step"] for each in publication["there_already"]) == STEPS
    assert (publication["published"], publication["damaged"], publication["place"]) == (
        [],
        [],
        str(team),
    )


@pytest.mark.usefixtures("published")
def test_publish_names_the_own_cache_if_it_is_empty(lumicontainer: Run, tmp_path: Path) -> None:
    done = lumicontainer("cache", "publish", "--all")
    assert (done.returncode, done.stdout) == (0, f"the cache is empty: {tmp_path}/empty-cache\n")


def test_publish_refuses_what_is_not_built(lumicontainer: Run, built: Words, team: Path) -> None:
    done = lumicontainer("cache", "publish", *built, "--set", "greet.times=2")
    why = "why: not in the cache: greet, lumicontainer"
    refused(done, "recipe 'hello' is not built", why, "hint: lumicontainer build ")
    assert list(team.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "code", "says"),
    [
        ("/nowhere/team", 3, ("why: it does not exist", "install -d -m 3770 -g GROUP DIR")),
        ("", 2, ("hint: export LUMICONTAINER_SHARED_CACHE=DIR",)),
    ],
    ids=["missing", "not named"],
)
def test_publish_requires_a_shared_cache(
    lumicontainer: Run, built: Words, folder: str, code: int, says: tuple[str, ...]
) -> None:
    done = lumicontainer("cache", "publish", *built, env={"LUMICONTAINER_SHARED_CACHE": folder})
    refused(done, *says, code=code)


def test_a_damaged_object_of_the_own_cache_is_not_published(
    lumicontainer: Run, built: Words, team: Path, tmp_path: Path
) -> None:
    for layer in (tmp_path / "cache/objects").glob("*/layer.squashfs"):
        layer.write_bytes(b"other")
    done = lumicontainer("cache", "publish", *built)
    assert (done.returncode, done.stdout) == (1, f"3 damaged: {team}\n")
    assert "damaged: greet: layer.squashfs has changed" in done.stderr
    assert list(team.iterdir()) == []


def test_list_and_explain_and_a_dry_run_show_what_a_build_would_take(
    lumicontainer: Run, ask: Ask, published: Words, tmp_path: Path
) -> None:
    objects = ask("cache", "list", "--shared")["objects"]
    assert sorted(each["step"] for each in objects) == STEPS
    publisher = objects[0]["publisher"]
    parts = ask("cache", "explain", *published)["parts"]
    states = {each["name"]: (each["state"], each["publisher"]) for each in parts}
    assert states == dict.fromkeys(STEPS, ("in the shared cache", publisher))
    done = lumicontainer("build", *published, "--dry-run")
    assert done.stdout.count(f"in the shared cache, from {publisher}\n") == len(STEPS)
    assert not (tmp_path / "empty-cache").exists()
    assert ask("build", *published, "--dry-run", "--rebuild")["taken"] == {}


def test_an_untrusted_owner_is_named(lumicontainer: Run, published: Words, team: Path) -> None:
    for each in team.iterdir():
        given_away(each)
    done = lumicontainer("cache", "explain", *published)
    assert "warning: 'base' is not taken from the shared cache" in done.stderr
    assert "its owner 65533 is not trusted" in done.stderr
    assert "export LUMICONTAINER_SHARED_CACHE_OWNERS=65533" in done.stderr
    assert "'base' is missing" in done.stdout
    done = lumicontainer("cache", "list", "--shared")
    assert done.stdout == f"0 objects, 0 B, in {team}\n"
    assert done.stderr.count("its owner 65533 is not trusted") == len(STEPS)


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [("size=8k", 8, "No space left on device"), ("ro", 3, "Read-only file system")],
)
def test_a_file_system_that_takes_no_object_stays_as_it_is(
    built: Words, team: Path, options: str, code: int, why: str
) -> None:
    mount = f'mount -t tmpfs -o mode=700,{owned()},{options} none "{team}"'
    command = [*prepared("mount", mount), "bash", "-c", '"$@"; code=$?; ls -A "$0"; exit $code']
    words = [sys.executable, "-m", "lumicontainer", "cache", "publish", *built]
    done = run([*command, team, *words])
    assert done.returncode == code, done.stderr
    assert f"error: cannot publish\n  where: {team}\n    why: {why}" in done.stderr
    assert done.stdout == ""


@pytest.mark.usefixtures("published")
def test_verify_reads_the_shared_cache_and_removes_nothing(
    lumicontainer: Run, ask: Ask, team: Path
) -> None:
    done = lumicontainer("cache", "verify", "--shared")
    assert (done.returncode, done.stdout) == (0, f"3 objects whole, in {team}\n")
    names = {each["step"]: each["name"] for each in ask("cache", "list", "--shared")["objects"]}
    layer = team / names["greet"] / "layer.squashfs"
    layer.write_bytes(b"x" + layer.read_bytes()[1:])
    before = sorted(team.rglob("*"))
    done = lumicontainer("cache", "verify", "--shared")
    assert done.returncode == 1
    assert "damaged: greet: layer.squashfs has changed: its sha256 differs\n" in done.stdout
    assert f" removes it by rm -r {layer.parent}, and publishes" in done.stdout
    assert "2 objects whole" in done.stdout
    examination = json.loads(lumicontainer("cache", "verify", "--shared", "--json").stdout)
    assert [each["name"] for each in examination["damaged"]] == [layer.parent.name]
    assert examination.keys() == ask("cache", "verify").keys()
    assert sorted(team.rglob("*")) == before


@pytest.mark.usefixtures("published")
def test_prune_removes_the_oldest_of_ones_own_from_the_shared_cache(ask: Ask, team: Path) -> None:
    old, older, new = sorted(team.iterdir())
    for folder, days in ((old, 10), (older, 20)):
        os.utime(folder, (time.time() - days * 86_400,) * 2)

    def pruned(*words: object) -> list[str]:
        return [each["name"] for each in ask("cache", "prune", "--shared", *words)["removed"]]

    assert pruned("--max-age", 30) == []
    assert pruned("--max-size", 0, "--dry-run") == [older.name, old.name, new.name]
    assert pruned("--max-age", 15) == [older.name]
    size = sum(path.stat().st_size for path in new.iterdir())
    assert pruned("--max-size", size) == [old.name]
    assert list(team.iterdir()) == [new]


@pytest.mark.usefixtures("published")
def test_prune_leaves_objects_of_others_that_it_may_not_write(
    lumicontainer: Run, team: Path
) -> None:
    for folder in team.iterdir():
        given_away(folder)
    done = succeeded(lumicontainer("cache", "prune", "--shared", "--max-size", 0))
    assert "removed 0 B" in done.stdout
    assert "more stays than the limit, because others published it\n" in done.stdout
    assert len(list(team.iterdir())) == len(STEPS)
    run([*as_root(), "chmod", "-R", "a+rwX", *team.iterdir()])
    done = succeeded(lumicontainer("cache", "prune", "--shared", "--max-size", 0, "--others"))
    assert done.stdout.count(f", of {STRANGER}\n") == len(STEPS)
    assert list(team.iterdir()) == []


@pytest.mark.usefixtures("team")
def test_prune_wants_a_limit_for_the_shared_cache(lumicontainer: Run) -> None:
    done = lumicontainer("cache", "prune", "--shared")
    refused(done, "hint: add --max-size SIZE, --max-age DAYS or both")


PLACE = "oci://registry.example.org/team/layers"


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--cache-from", f"{PLACE}:1"), 2, f"hint: write {PLACE}\n"),
        (("--cache-to", f"{PLACE}@sha256:{'0' * 64}"), 2, f"hint: write {PLACE}\n"),
        (("--cache-to", "docker://registry.example.org/x"), 2, "it does not begin with oci://"),
        (("--cache-sign", "key"), 2, "hint: add --cache-to oci://HOST/NAME"),
        (("--cache-to", PLACE, "--cache-sign", "/missing"), 3, "hint: name the file of an SSH key"),
    ],
    ids=["tag", "digest", "scheme", "nothing to sign", "key"],
)
def test_a_build_with_a_wrong_option_for_layers_does_not_begin(
    lumicontainer: Run, hello: Hello, options: tuple[str, ...], code: int, says: str
) -> None:
    refused(lumicontainer("build", *hello(), *options), says, code=code)
