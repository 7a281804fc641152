"""A secret is there while a step runs, and nowhere afterwards."""

import os
import subprocess
import uuid
from pathlib import Path

import pytest

from ..conftest import CHECK
from .conftest import lumicontainer, run, write_small

CANARY = "canary-5e3f9b1c77d2"
LAYER = "summary: wants a token\nsecrets: [token]\n"
USES = """\
set -euo pipefail
sha256sum <"$secrets/token" >/opt/digest
echo "printed: $(cat "$secrets/token")"
"""
LEAVES = 'set -euo pipefail\nmkdir /opt/x\ncp "$secrets/token" /opt/x/copy\n'


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token.txt"
    path.write_text(f"{CANARY}\n")
    return path


def build(
    folder: Path, script: str, *words: object, place: Path
) -> subprocess.CompletedProcess[str]:
    """Build a recipe whose layer wants a secret, with a workspace under ``place``.

    The step runs: its script is in no cache.
    """
    script += f"# {uuid.uuid4()}\n"
    changes = {"layers/greet/layer.yaml": LAYER, "layers/greet/install.sh": script, **NO_CHECK}
    recipes = write_small(folder / "own", {**changes, "small.yaml": RECIPE})
    environment = {"LUMICONTAINER_TMPDIR": str(place)}
    output = ("--output", folder / "small.sif")
    return lumicontainer("build", "small", "--recipes", recipes, *output, *words, env=environment)


NO_CHECK = {"layers/greet/checks/greeting.sh": f"{CHECK}true\n"}
RECIPE = "summary: a small image\nbase: tiny\nlayers: [greet]\n"


def everything(*roots: Path) -> bytes:
    """Return the bytes of all files under folders, and of the squashfs of layers unpacked."""
    found = bytearray()
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    found += path.read_bytes()
    return bytes(found)


def test_a_secret_is_used_and_left_nowhere(token: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    done = build(tmp_path, USES, "--secret", f"id=token,src={token}", "--json", place=place)
    assert done.returncode == 0, done.stderr
    image = tmp_path / "small.sif"
    digest = lumicontainer("run", image, "--", "cat", "/opt/digest").stdout.split()[0]
    assert run(["sha256sum", token]).stdout.split()[0] == digest
    words = ["find", "/", "-xdev", "-type", "f", "-exec", "grep", "-lF", CANARY, "{}", "+"]
    assert lumicontainer("run", image, "--", *words).stdout == ""
    assert CANARY not in done.stdout + done.stderr
    cache = Path.home() / ".cache/lumicontainer"
    kept = [cache / "held", cache / "images", *cache.glob("objects/*/*.json"), place]
    assert CANARY.encode() not in everything(*kept) + image.read_bytes()


def test_a_step_that_leaves_a_secret_behind_fails_and_names_the_file(
    token: Path, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    done = build(tmp_path, LEAVES, "--secret", f"id=token,src={token}", place=place)
    assert done.returncode == 5
    assert "left a secret in its files" in done.stderr
    assert "/opt/x/copy" in done.stderr
    assert not (tmp_path / "small.sif").exists()
    assert CANARY.encode() not in everything(place)


def test_all_that_is_wrong_with_secrets_is_reported_before_anything_is_begun(
    tmp_path: Path,
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    wrong = ("--secret", "token", "--secret", f"id=tokn,src={tmp_path / 'none'}")
    done = build(tmp_path, USES, *wrong, place=place)
    assert done.returncode == 2
    assert "invalid secret 'token'" in done.stderr
    assert "no layer requires the secret 'tokn'" in done.stderr
    assert "did you mean 'token'?" in done.stderr
    assert "the layer 'greet' requires the secret 'token'" in done.stderr
    assert list(place.glob("*/small-*")) == []


def test_a_plain_definition_names_the_secret_that_is_missing(tmp_path: Path) -> None:
    changes = {"layers/greet/layer.yaml": LAYER, "layers/greet/install.sh": USES}
    recipes = write_small(tmp_path / "own", {**changes, "small.yaml": RECIPE})
    text = lumicontainer("render", "small", "--recipes", recipes).stdout
    assert "error: the secret '\"'\"'token'\"'\"' is not here" in text
