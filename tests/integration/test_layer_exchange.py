"""Builds share layers and wheels by a real registry, and need none."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cache.shared.trusted import DIGESTS, OWNERS, SIGNERS
from lumicontainer.cache.store import Cache
from lumicontainer.system.files.user_cache import cache_root

from ..unit.cache.signers import allowed, new_key
from .conftest import events, lumicontainer
from .registries import PASSWORD, registry

STEPS = {"base", "greet", "lumicontainer"}
CLOSED = "127.0.0.1:9"
"""No server listens at the port of the service ``discard``."""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[str]:
    with registry(tmp_path / "registry") as host:
        yield f"oci://{host}/team/cache"


class Team:
    """Build the recipe ``small``, with the usual cache or an empty one."""

    def __init__(self, folder: Path, recipes: Path) -> None:
        self.folder, self.recipes = folder, recipes

    def build(
        self, *words: object, empty: bool = False, env: dict[str, str] | None = None
    ) -> tuple[dict[str, Any], str]:
        """Return the result of a build, and what it said."""
        own = {"LUMICONTAINER_CACHE": str(self.folder / "cache")} if empty else {}
        output = self.folder / f"{len([*self.folder.iterdir()])}.sif"
        command = ("build", "small", "--recipes", self.recipes, "--output", output, "--no-verify")
        options = ("--json", "--progress", "json", *words)
        done = lumicontainer(*command, *options, env={**own, **(env or {})}, code=0)
        return json.loads(done.stdout), done.stderr


@pytest.fixture
def team(small: Path, recipes: Path, tmp_path: Path) -> Team:
    """Return what builds; the usual cache has all layers."""
    del small
    return Team(tmp_path, recipes)


def ran(stderr: str) -> set[str]:
    """Return the steps that ran in a build."""
    return {event["step"] for event in events(stderr, "end")} & STEPS


def warnings(stderr: str, place: str) -> list[str]:
    """Return what a build said about a cache in a registry."""
    texts = [event["text"] for event in events(stderr, "say")]
    return [text for text in texts if f"where: {place}" in text]


def test_who_trusts_the_signer_builds_nothing(team: Team, here: str, tmp_path: Path) -> None:
    key = new_key(tmp_path, "alice")
    sent, _ = team.build("--cache-to", here, "--cache-sign", key)
    assert {each["step"]: each["state"] for each in sent["sent"]} == dict.fromkeys(STEPS, "sent")
    trust = {SIGNERS: str(allowed(tmp_path, key))}
    built, stderr = team.build("--cache-from", here, empty=True, env=trust)
    assert ran(stderr) == set()
    assert set(built["taken"].values()) == {"alice@example.org"}
    assert len(built["taken"]) == len(STEPS)
    assert built["key"] == sent["key"]
    assert "published by alice@example.org" in stderr


def test_explain_says_what_a_build_would_take(team: Team, here: str, tmp_path: Path) -> None:
    team.build("--cache-to", here)
    words = ("cache", "explain", "small", "--recipes", team.recipes, "--cache-from", here)
    empty = {"LUMICONTAINER_CACHE": str(tmp_path / "empty")}
    trusted = lumicontainer(*words, env={**empty, OWNERS: here}, code=0).stdout
    assert trusted.count(f"in the shared cache, from {here}\n") == len(STEPS)
    doubted = lumicontainer(*words, env=empty, code=0)
    assert "'base' is missing" in doubted.stdout
    assert f"export {OWNERS}={here}" in doubted.stderr


def listing(sent: dict[str, Any], steps: set[str], file: Path) -> dict[str, str]:
    """List the objects of some steps that were sent; return the variable that trusts these."""
    names = (each["name"] for each in sent["sent"] if each["step"] in steps)
    sums = ((Cache(cache_root()).folder(name) / "sums").read_bytes() for name in names)
    file.write_text("".join(f"{hashlib.sha256(each).hexdigest()}  sums\n" for each in sums))
    file.chmod(0o600)
    return {DIGESTS: str(file)}


def test_who_lists_the_objects_builds_nothing(team: Team, here: str, tmp_path: Path) -> None:
    sent, _ = team.build("--cache-to", here)
    trust = listing(sent, STEPS, tmp_path / "list")
    _, stderr = team.build("--cache-from", here, empty=True, env=trust)
    assert ran(stderr) == set()


def test_who_lists_the_base_alone_builds_the_rest_and_is_told_once(
    team: Team, here: str, tmp_path: Path
) -> None:
    sent, _ = team.build("--cache-to", here)
    trust = listing(sent, {"base"}, tmp_path / "list")
    built, stderr = team.build("--cache-from", here, empty=True, env=trust)
    assert ran(stderr) == STEPS - {"base"}
    assert len(built["taken"]) == 1
    (warning,) = warnings(stderr, here)
    assert f"export {OWNERS}={here}" in warning


def test_a_build_without_its_registry_says_so_once(team: Team, tmp_path: Path) -> None:
    place, new = f"oci://{CLOSED}/team/cache", f"greet.greeting={tmp_path}"
    _, stderr = team.build("--cache-from", place, "--set", new)
    assert ran(stderr) == STEPS - {"base"}
    (warning,) = warnings(stderr, place)
    assert "why: [Errno 111] Connection refused" in warning


def test_an_image_that_is_up_to_date_sends_its_layers_too(
    team: Team, here: str, tmp_path: Path, recipes: Path
) -> None:
    words = ("--recipes", recipes, "--output", tmp_path / "small.sif", "--json")
    options = ("--cache-to", here)
    lumicontainer("build", "small", *words, code=0)
    built = json.loads(lumicontainer("build", "small", *words, *options, code=0).stdout)
    assert not built["built"]
    assert [each["state"] for each in built["sent"]] == ["sent"] * len(STEPS)


def test_a_read_only_registry_costs_no_image(team: Team, tmp_path: Path) -> None:
    with registry(tmp_path / "registry", read_only=True) as host:
        place = f"oci://{host}/team/cache"
        built, stderr = team.build("--cache-to", place)
    assert [each["state"] for each in built["sent"]] == ["not sent"] * len(STEPS)
    assert Path(built["image"]).is_file()
    (warning,) = warnings(stderr, place)
    assert "it may be read-only" in warning


def test_a_registry_with_a_certificate_and_a_password(team: Team, tmp_path: Path) -> None:
    login = {"APPTAINER_DOCKER_USERNAME": "me", "APPTAINER_DOCKER_PASSWORD": PASSWORD}
    with registry(tmp_path / "registry", guarded=True) as host:
        cache = f"oci://{host}/team/cache"
        trust = {"SSL_CERT_FILE": str(tmp_path / "registry/ca.pem"), OWNERS: cache}
        team.build("--cache-to", cache, env={**login, **trust})
        stranger = {"APPTAINER_DOCKER_USERNAME": "", "APPTAINER_DOCKER_PASSWORD": "", **trust}
        words = ("build", "small", "--recipes", team.recipes, "--dry-run", "--cache-from", cache)
        own = {"LUMICONTAINER_CACHE": str(tmp_path / "empty")}
        done = lumicontainer(*words, env={**own, **stranger}, code=0)
        assert "hint: log in: apptainer registry login" in done.stderr
        done = lumicontainer(*words, env={**own, **login, **trust}, code=0)
        assert done.stdout.count(f"in the shared cache, from {cache}\n") == len(STEPS)
