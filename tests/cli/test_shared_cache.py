"""What the commands print about a shared cache, and how they end."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from lumicontainer.build.cache import store as cache

from ..conftest import HELLO, Write
from ..faults.test_folders_of_others import STRANGER, given_away
from ..namespaces import as_root, owned, prepared
from ..programs import run
from .conftest import Run
from .test_cache import build

STEPS = ["base", "greet", "lumicontainer"]


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a shared cache that the environment names."""
    folder = tmp_path / "team"
    folder.mkdir()
    monkeypatch.setenv("LUMICONTAINER_SHARED_CACHE", str(folder))
    return folder


@pytest.fixture
def hello(
    write: Write, team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[object, ...]:
    """Return the words that name a recipe, whose objects are in the own cache."""
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    folder = write(HELLO)
    build(cache.Cache(tmp_path / "cache").open(), folder)
    return ("hello", "--recipes", folder, "--platform", "workstation")


@pytest.fixture
def published(
    lumicontainer: Run,
    hello: tuple[object, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[object, ...]:
    """Publish these objects, and name an empty cache."""
    done = lumicontainer("cache", "publish", *hello)
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "empty-cache"))
    return hello


def test_publish_counts_what_is_new_and_what_is_there(
    lumicontainer: Run, hello: tuple[object, ...], team: Path
) -> None:
    done = lumicontainer("cache", "publish", *hello)
    assert (done.returncode, done.stdout) == (0, f"3 published: {team}\n")
    done = lumicontainer("cache", "publish", "--all", "--json")
    found = json.loads(done.stdout)
    assert [sorted(each["step"] for each in found["there_already"])] == [STEPS]
    assert (found["published"], found["damaged"], found["place"]) == ([], [], str(team))


def test_publish_refuses_a_recipe_that_is_not_built(
    lumicontainer: Run, hello: tuple[object, ...], team: Path
) -> None:
    done = lumicontainer("cache", "publish", *hello, "--set", "greet.times=2")
    assert done.returncode == 2
    assert "recipe 'hello' is not built" in done.stderr
    assert "why: not in the cache: greet, lumicontainer" in done.stderr
    assert "hint: lumicontainer build " in done.stderr
    assert list(team.iterdir()) == []


@pytest.mark.parametrize("words", [(), ("hello", "--all")])
def test_publish_expects_a_recipe_or_all(lumicontainer: Run, words: tuple[str, ...]) -> None:
    done = lumicontainer("cache", "publish", *words)
    assert done.returncode == 2
    assert "expected a recipe or --all" in done.stderr


def test_publish_requires_a_shared_cache(
    lumicontainer: Run, hello: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_SHARED_CACHE", "/nowhere/team")
    done = lumicontainer("cache", "publish", *hello)
    assert done.returncode == 3
    assert "why: it does not exist" in done.stderr
    assert "install -d -m 3770 -g GROUP DIR" in done.stderr
    monkeypatch.delenv("LUMICONTAINER_SHARED_CACHE")
    done = lumicontainer("cache", "publish", *hello)
    assert done.returncode == 2
    assert "hint: export LUMICONTAINER_SHARED_CACHE=DIR" in done.stderr


def test_a_damaged_object_of_the_own_cache_is_not_published(
    lumicontainer: Run, hello: tuple[object, ...], team: Path, tmp_path: Path
) -> None:
    for layer in (tmp_path / "cache/objects").glob("*/layer.squashfs"):
        layer.write_bytes(b"other")
    done = lumicontainer("cache", "publish", *hello)
    assert (done.returncode, done.stdout) == (1, f"3 damaged: {team}\n")
    assert "damaged: greet: layer.squashfs has changed" in done.stderr
    assert list(team.iterdir()) == []


def test_list_and_explain_and_a_dry_run_show_what_a_build_would_take(
    lumicontainer: Run, published: tuple[object, ...], tmp_path: Path
) -> None:
    listed = json.loads(lumicontainer("cache", "list", "--shared", "--json").stdout)
    assert sorted(each["step"] for each in listed["objects"]) == STEPS
    publisher = listed["objects"][0]["publisher"]
    explained = json.loads(lumicontainer("cache", "explain", *published, "--json").stdout)
    states = {each["name"]: (each["state"], each["publisher"]) for each in explained["parts"]}
    assert states == dict.fromkeys(STEPS, ("in the shared cache", publisher))
    done = lumicontainer("build", *published, "--dry-run")
    assert done.stdout.count(f"in the shared cache, from {publisher}\n") == len(STEPS)
    assert not (tmp_path / "empty-cache").exists()
    done = lumicontainer("build", *published, "--dry-run", "--rebuild", "--json")
    assert json.loads(done.stdout)["taken"] == {}


def test_list_and_explain_name_an_owner_who_is_not_trusted(
    lumicontainer: Run, published: tuple[object, ...], team: Path
) -> None:
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
    hello: tuple[object, ...], team: Path, options: str, code: int, why: str
) -> None:
    mount = f'mount -t tmpfs -o mode=700,{owned()},{options} none "{team}"'
    command = [*prepared("mount", mount), "bash", "-c", '"$@"; code=$?; ls -A "$0"; exit $code']
    words = [sys.executable, "-m", "lumicontainer", "cache", "publish", *hello]
    done = run([*command, team, *words])
    assert done.returncode == code, done.stderr
    assert f"error: cannot publish\n  where: {team}\n    why: {why}" in done.stderr
    assert done.stdout == ""


def test_verify_reads_every_byte_of_the_shared_cache_and_removes_nothing(
    lumicontainer: Run, published: tuple[object, ...], team: Path
) -> None:
    del published
    done = lumicontainer("cache", "verify", "--shared")
    assert (done.returncode, done.stdout) == (0, f"3 objects whole, in {team}\n")
    (layer,) = (each for each in team.glob("*/layer.squashfs") if b"greet" in about(each))
    layer.write_bytes(b"x" + layer.read_bytes()[1:])
    before = sorted(team.rglob("*"))
    done = lumicontainer("cache", "verify", "--shared")
    assert done.returncode == 1
    assert "damaged: greet: layer.squashfs has changed: its sha256 differs\n" in done.stdout
    assert f" removes it by rm -r {layer.parent}, and publishes" in done.stdout
    assert "2 objects whole" in done.stdout
    found = json.loads(lumicontainer("cache", "verify", "--shared", "--json").stdout)
    assert [each["name"] for each in found["damaged"]] == [layer.parent.name]
    assert sorted(team.rglob("*")) == before


def about(layer: Path) -> bytes:
    """Return the beginning of an object's record, with the name of its step."""
    return layer.with_name(cache.ENTRY).read_bytes().partition(b'"step"')[2]


def test_prune_removes_the_oldest_of_ones_own_from_the_shared_cache(
    lumicontainer: Run, published: tuple[object, ...], team: Path
) -> None:
    del published
    old, older, new = sorted(team.iterdir())
    for folder, days in ((old, 10), (older, 20)):
        os.utime(folder, (time.time() - days * 86_400,) * 2)

    def pruned(*words: object) -> list[str]:
        done = lumicontainer("cache", "prune", "--shared", *words, "--json")
        assert done.returncode == 0, done.stderr
        return [each["name"] for each in json.loads(done.stdout)["removed"]]

    assert pruned("--max-age", 30) == []
    assert pruned("--max-size", 0, "--dry-run") == [older.name, old.name, new.name]
    assert pruned("--max-age", 15) == [older.name]
    assert pruned("--max-size", size(new)) == [old.name]
    assert list(team.iterdir()) == [new]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_prune_leaves_objects_of_others_unless_the_user_may_write_and_says_so(
    lumicontainer: Run, published: tuple[object, ...], team: Path
) -> None:
    del published
    for folder in team.iterdir():
        given_away(folder)
    done = lumicontainer("cache", "prune", "--shared", "--max-size", 0)
    assert done.returncode == 0, done.stderr
    assert "removed 0 B" in done.stdout
    assert "more stays than the limit, because others published it\n" in done.stdout
    assert len(list(team.iterdir())) == len(STEPS)
    run([*as_root(), "chmod", "-R", "a+rwX", *team.iterdir()])
    done = lumicontainer("cache", "prune", "--shared", "--max-size", 0, "--others")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f", of {STRANGER}\n") == len(STEPS)
    assert list(team.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--shared",), "hint: add --max-size SIZE, --max-age DAYS or both"),
        (("--others",), "--others is an option of --shared"),
    ],
)
def test_prune_names_the_option_that_is_missing(
    lumicontainer: Run, team: Path, words: tuple[str, ...], says: str
) -> None:
    del team
    done = lumicontainer("cache", "prune", *words)
    assert done.returncode == 2
    assert says in done.stderr
