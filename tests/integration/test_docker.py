"""A real Docker engine builds the Dockerfile, and the image does what the SIF does."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from lumicontainer.constants import HOME

from .conftest import (
    BASE,
    SMALL,
    STRANGE_LINES,
    Docker,
    lumicontainer,
    write_small,
)

IMAGE = "lumicontainer-test-small"
STRANGE = 'it\'s "$HOME" ${X:-y} `id` \\ $$ # é \\'


def build(docker: Docker, recipes: Path, *options: str) -> None:
    """Build the recipe ``small`` from its Dockerfile alone, as README says."""
    rendered = lumicontainer("render", "small", "--recipes", recipes, "--format", "dockerfile")
    assert rendered.returncode == 0, rendered.stderr
    words = ("build", "--network=host", "--build-arg", f"BASE={BASE}", *options, "-")
    done = docker(*words, stdin=rendered.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.fixture(scope="module")
def started(docker: Docker, recipes: Path) -> Docker:
    """Build the image once; return what starts it with the words that follow its name."""
    build(docker, recipes, "--no-cache", "--tag", IMAGE)
    return lambda *words: docker("run", "--rm", "--network=host", IMAGE, *words)


def test_strange_values_of_the_environment_arrive(started: Docker) -> None:
    rows = (row.partition("=") for row in started("--", "env", "-0").stdout.split("\0"))
    found = {name: value for name, _, value in rows}
    assert {name: found.get(name) for name in STRANGE_LINES} == STRANGE_LINES


def test_the_environment_of_the_layers_holds_without_lumi_entry_too(
    started: Docker, docker: Docker
) -> None:
    script = 'echo "$GREETING_STYLE $PATH"'
    for seen in (
        started("--", "sh", "-c", script),
        docker("run", "--rm", "--network=host", "--entrypoint", "sh", IMAGE, "-c", script),
    ):
        assert seen.stdout.startswith("plain /opt/greet/bin:/usr/local/sbin:"), seen.stderr


def test_the_entrypoint_is_lumi_entry(started: Docker) -> None:
    assert re.fullmatch(r"lumi-entry \d\S*\n", started("--version").stdout)
    assert started("--", "sh", "-c", "exit 7").returncode == 7
    assert started("--", "sh", "-c", "echo $RANK of $WORLD_SIZE").stdout == "0 of 1\n"


@pytest.fixture
def unnamed(started: Docker, docker: Docker, tmp_path: Path) -> Docker:
    """Return what starts the image read-only, as a user without a name, in a folder of his own."""
    (tmp_path / "show.py").write_text("import os, sys; print(os.getuid(), *sys.argv, os.getcwd())")
    tmp_path.chmod(0o755)
    options = ("--read-only", "--user=12345:12345", "--volume", f"{tmp_path}:/here:ro")
    place = ("--network=host", "--workdir=/here", IMAGE)
    return lambda *words: docker("run", "--rm", *options, *place, *words)


def test_a_user_without_a_name_runs_a_script_in_a_read_only_container(unnamed: Docker) -> None:
    seen = unnamed("show.py", "a b")
    assert (seen.stdout, seen.stderr) == ("12345 show.py a b /here\n", "")
    assert unnamed("lumi.py").stderr.startswith("error: script not found: 'lumi.py'\n")


def test_a_launcher_that_is_missing_in_the_image_is_named_once(unnamed: Docker) -> None:
    seen = unnamed("--launcher", "torchrun", "--nproc", 2, "show.py")
    assert (seen.returncode, seen.stdout) == (2, "")
    assert seen.stderr.count("error: ") == 1
    assert "error: package not found: torch\n" in seen.stderr


def test_the_record_of_the_values_is_the_sifs(started: Docker, small: Path) -> None:
    seen = started("--", "cat", f"{HOME}/resolved.json")
    inspected = json.loads(lumicontainer("inspect", small, "--json").stdout)
    of_the_file = {"key", "bytes"}
    assert json.loads(seen.stdout) == {
        name: value for name, value in inspected.items() if name not in of_the_file
    }


def test_the_build_leaves_no_stage_and_no_lists_of_packages(started: Docker) -> None:
    folders = (HOME, "/run", "/var/lib/apt/lists")
    names = started("--", "ls", "-A", *folders).stdout
    assert "resolved.json" in names
    assert not [name for name in (".stage", "lumicontainer-step", "Packages") if name in names]


def test_quotes_dollars_and_a_large_file_pass_through_the_dockerfile(
    docker: Docker, tmp_path: Path
) -> None:
    """Docker expands variables in LABEL and ENV, and takes no line above 65,535 bytes."""
    layer = SMALL["layers/greet/layer.yaml"].replace("plain", json.dumps(STRANGE))
    recipe = SMALL["small.yaml"].replace("a small image", json.dumps(STRANGE))
    folder = write_small(tmp_path / "own", {"layers/greet/layer.yaml": layer, "small.yaml": recipe})
    large = bytes(range(256)) * 240
    (folder / "layers/greet/data.bin").write_bytes(large)
    build(docker, folder, "--tag", f"{IMAGE}-strange")

    shown = docker("image", "inspect", f"{IMAGE}-strange", "--format", "{{json .Config}}")
    config = json.loads(shown.stdout)
    assert config["Labels"]["org.opencontainers.image.description"] == STRANGE
    assert f"GREETING_STYLE={STRANGE}" in config["Env"]
    words = ("run", "--rm", "--network=host", f"{IMAGE}-strange", "--", "sha256sum")
    seen = docker(*words, "/opt/greet/data")
    assert seen.stdout.split()[0] == hashlib.sha256(large).hexdigest(), seen.stderr
