"""A secret is there while a step runs, and nowhere afterwards."""

import hashlib
import os
import subprocess
import uuid
from pathlib import Path

import pytest

from ..conftest import CHECK
from .conftest import NewCache, inside, lumicontainer, write_small

CANARY = "canary-5e3f9b1c77d2"
CHANGES = {
    "small.yaml": "summary: a small image\nbase: tiny\nlayers: [greet]\n",
    "layers/greet/layer.yaml": "summary: wants a token\nsecrets: [token]\n",
    "layers/greet/checks/greeting.sh": f"{CHECK}true\n",
}
USES = """\
set -euo pipefail
sha256sum <"$secrets/token" >/opt/digest
echo "printed: $(cat "$secrets/token")"
"""


@pytest.fixture
def secret(tmp_path: Path) -> tuple[str, str]:
    """Write a token, and return the options that give it to a build."""
    (tmp_path / "token.txt").write_text(f"{CANARY}\n")
    return "--secret", f"id=token,src={tmp_path / 'token.txt'}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def build(
    place: Path, script: str, *words: object, code: int = 0, **env: str
) -> subprocess.CompletedProcess[str]:
    """Build ``small.sif`` of a layer that wants a secret, with a workspace under ``place``.

    The step runs: its script is in no cache.
    """
    install = {"layers/greet/install.sh": f"{script}# {uuid.uuid4()}\n"}
    recipes = write_small(place.parent / "own", {**CHANGES, **install})
    options = ("--recipes", recipes, "--output", place.parent / "small.sif", *words)
    env["LUMICONTAINER_TMPDIR"] = str(place)
    return lumicontainer("build", "small", *options, env=env, code=code)


def everything(*roots: Path) -> bytes:
    """Return the bytes of all files under folders."""
    paths = (Path(at, name) for root in roots for at, _, names in os.walk(root) for name in names)
    files = (path for path in paths if path.is_file() and not path.is_symlink())
    return b"".join(path.read_bytes() for path in files)


def test_a_secret_is_used_and_left_nowhere(
    secret: tuple[str, str],
    place: Path,
    new_cache: NewCache,
    tmp_path: Path,
) -> None:
    done = build(place, USES, *secret, "--json", **new_cache(tmp_path / "cache"))
    image = tmp_path / "small.sif"
    used = hashlib.sha256(f"{CANARY}\n".encode()).hexdigest()
    assert inside(image, "cat", "/opt/digest").split()[0] == used
    grep = ["find", "/", "-xdev", "-type", "f", "-exec", "grep", "-lF", CANARY, "{}", "+"]
    assert lumicontainer("run", image, "--", *grep).stdout == ""
    assert CANARY not in done.stdout + done.stderr
    assert CANARY.encode() not in everything(tmp_path / "cache", place) + image.read_bytes()


def test_all_that_is_wrong_with_secrets_is_reported_before_anything_is_begun(place: Path) -> None:
    done = build(place, USES, "--secret", "token", "--secret", "id=tokn,src=/nowhere", code=2)
    assert "invalid secret 'token'" in done.stderr
    assert "no layer requires the secret 'tokn'" in done.stderr
    assert "did you mean 'token'?" in done.stderr
    assert "the layer 'greet' requires the secret 'token'" in done.stderr
    assert list(place.glob("*/small-*")) == []


def test_a_plain_definition_names_the_secret_that_is_missing(tmp_path: Path) -> None:
    recipes = write_small(tmp_path / "own", CHANGES)
    text = lumicontainer("render", "small", "--recipes", recipes).stdout
    assert "error: the secret '\"'\"'token'\"'\"' is not here" in text
