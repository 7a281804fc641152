"""A real Docker engine builds the Dockerfile, and the image does what the SIF does."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from lumicontainer.constants import HOME

from .conftest import BASE, SMALL, STRANGE_LINES, Docker, lumicontainer, write_small

IMAGE = "lumicontainer-test-small"
STRANGE = 'it\'s "$HOME" ${X:-y} `id` \\ $$ # é \\'
LARGE = bytes(range(256)) * 240


@pytest.fixture(scope="module")
def started(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Docker:
    """Build the image once; return what starts it with the words that follow its name."""
    summary = SMALL["small.yaml"].replace("a small image", json.dumps(STRANGE))
    recipes = write_small(tmp_path_factory.mktemp("own"), {"small.yaml": summary})
    (recipes / "layers/greet/data.bin").write_bytes(LARGE)
    rendered = lumicontainer(
        "render", "small", "--recipes", recipes, "--format", "dockerfile", code=0
    )
    words = ("build", "--network=host", "--build-arg", f"BASE={BASE}", "--no-cache")
    done = docker(*words, "--tag", IMAGE, "-", stdin=rendered.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return lambda *words: docker("run", "--rm", "--network=host", IMAGE, *words)


@pytest.mark.parametrize("start", [("--entrypoint", "env", IMAGE), (IMAGE, "--", "env")])
def test_the_environment_of_the_layers_holds_with_and_without_lumi_entry(
    started: Docker, docker: Docker, start: tuple[str, ...]
) -> None:
    rows = docker("run", "--rm", "--network=host", *start, "-0").stdout.split("\0")
    variables = dict(row.partition("=")[::2] for row in rows)
    assert {name: variables.get(name) for name in STRANGE_LINES} == STRANGE_LINES
    assert variables["GREETING_STYLE"] == "plain"
    assert variables["PATH"].startswith("/opt/greet/bin:/usr/local/sbin:")


def test_the_entrypoint_is_lumi_entry(started: Docker) -> None:
    assert re.fullmatch(r"lumi-entry \d\S*\n", started("--version").stdout)
    assert started("--", "sh", "-c", "exit 7").returncode == 7
    # One process without a launcher is no rank.
    assert started("--", "sh", "-c", "echo rank=$RANK").stdout == "rank=\n"


def test_a_user_without_a_name_runs_a_script_in_a_read_only_container(
    started: Docker, docker: Docker, tmp_path: Path
) -> None:
    (tmp_path / "show.py").write_text("import os, sys; print(os.getuid(), *sys.argv, os.getcwd())")
    tmp_path.chmod(0o755)
    options = ("--read-only", "--user=12345:12345", "--volume", f"{tmp_path}:/here:ro")
    start = ("run", "--rm", *options, "--network=host", "--workdir=/here", IMAGE)
    seen = docker(*start, "show.py", "a b")
    assert (seen.stdout, seen.stderr) == ("12345 show.py a b /here\n", "")
    missing = docker(*start, "--launcher", "torchrun", "--nproc", 2, "show.py")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.count("error: ") == 1
    assert "error: package not found: torch\n" in missing.stderr


def test_the_record_of_the_values_is_the_sifs(started: Docker, small: Path) -> None:
    record = json.loads(started("--", "cat", f"{HOME}/resolved.json").stdout)
    inspected = json.loads(lumicontainer("inspect", small, "--json").stdout)
    assert record.keys() > {"recipe", "platform", "base", "layers"}
    assert record == {**{name: inspected[name] for name in record}, "summary": STRANGE}


def test_the_build_leaves_no_stage_and_no_lists_of_packages(started: Docker) -> None:
    folders = (HOME, "/run", "/var/lib/apt/lists")
    names = started("--", "ls", "-A", *folders).stdout
    assert "resolved.json" in names
    assert not [name for name in (".stage", "lumicontainer-step", "Packages") if name in names]


def test_quotes_dollars_and_a_large_file_pass_through_the_dockerfile(
    started: Docker, docker: Docker
) -> None:
    """Docker expands variables in LABEL and ENV, and takes no line above 65,535 bytes."""
    labels = docker("image", "inspect", IMAGE, "--format", "{{json .Config.Labels}}").stdout
    assert json.loads(labels)["org.opencontainers.image.description"] == STRANGE
    seen = started("--", "sha256sum", "/opt/greet/data")
    assert seen.stdout.split()[0] == hashlib.sha256(LARGE).hexdigest(), seen.stderr
