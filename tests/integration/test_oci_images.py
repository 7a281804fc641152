"""An image becomes an ordinary OCI image, which programs that are not ours read and run."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..namespaces import as_root
from .conftest import (
    SMALL,
    STRANGE_LINES,
    Docker,
    check_output,
    described,
    in_namespace,
    inside,
    lumicontainer,
    pasted,
    unpacked,
    write_small,
)
from .registries import fetch_bill, registry


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture(scope="module")
def name(here: str, small: Path) -> str:
    """Return the name of a pushed image without its scheme."""
    push(small, f"{here}/small:1")
    return f"{here}/small:1"


def push(image: Path, name: str) -> dict[str, Any]:
    words = ("push", image, f"oci://{name}", "--format", "oci", "--json")
    return dict(json.loads(lumicontainer(*words, code=0).stdout))


def test_umoci_unpacks_the_files_of_the_image(name: str, small: Path, tmp_path: Path) -> None:
    layout = f"{tmp_path / 'layout'}:1"
    copy = ("skopeo", "copy", "--src-tls-verify=false", f"docker://{name}", f"oci:{layout}")
    check_output(*copy)
    in_namespace("umoci", "unpack", "--image", layout, tmp_path / "bundle")
    seen = described(tmp_path / "bundle/rootfs")
    assert len(seen) > 1000
    assert seen == described(unpacked(small, tmp_path / "image"))


def test_docker_runs_it_by_its_entry_point(name: str, docker: Docker) -> None:
    assert docker("pull", "--quiet", name).returncode == 0
    try:
        done = docker("run", "--rm", name, "--version")
        assert done.stdout.startswith("lumi-entry "), done.stderr
        done = docker("run", "--rm", name, "--", "cat", "/opt/greet/greeting")
        assert done.stdout == "it's $(id) `id` %post {{ x }}", done.stderr
    finally:
        docker("image", "rm", "--force", name)


def test_skopeo_and_podman_read_its_variables_labels_and_entry_point(
    name: str,
) -> None:
    words = ("skopeo", "inspect", "--config", "--tls-verify=false", f"docker://{name}")
    config = json.loads(check_output(*words))["config"]
    variables = dict(each.split("=", 1) for each in config["Env"])
    assert {key: variables[key] for key in STRANGE_LINES} == STRANGE_LINES
    assert variables["PATH"].startswith("/opt/greet/bin:/usr/local/sbin:")
    assert config["Entrypoint"] == ["/opt/lumicontainer/bin/lumi-entry"]
    assert config["Labels"]["org.opencontainers.image.title"] == "small"
    assert podman_config(name) == config


def podman_config(name: str) -> dict[str, Any]:
    """Return the configuration that Podman shows of an image, which it pulls."""
    # Podman refuses a path of more than 50 characters.
    folder = Path(tempfile.mkdtemp(prefix="podman-", dir="/tmp"))
    files = [word for each in ("root", "runroot") for word in (f"--{each}", folder / each)]
    podman = (*as_root(), "podman", *files, "--storage-driver=vfs")
    try:
        check_output(*podman, "pull", "--quiet", "--tls-verify=false", name)
        shown = check_output(*podman, "image", "inspect", name, "--format", "{{json .Config}}")
    finally:
        check_output(*as_root(), "rm", "-rf", "--one-file-system", folder)
    return dict(json.loads(shown))


def test_pull_names_the_engine_which_makes_a_file_of_it(name: str, tmp_path: Path) -> None:
    done = lumicontainer("pull", f"oci://{name}", cwd=tmp_path, code=6)
    hint = done.stderr.partition("hint: ")[2].splitlines()[0]
    assert hint == f"apptainer pull docker://{name}"
    # The registry of this test speaks http.
    made = pasted(hint.replace(" pull ", " pull --no-https small.sif "), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert inside(tmp_path / "small.sif", "lumi-entry", "--version").startswith("lumi-entry ")


def test_the_same_image_has_the_same_digest_and_is_not_sent_again(
    name: str, small: Path, here: str
) -> None:
    again = push(small, f"{here}/small:2")
    assert again["moved"] == 0
    assert again["digest"] == push(small, name)["digest"]


def test_images_share_the_layers_that_they_have_in_common(
    name: str, here: str, tmp_path: Path
) -> None:
    size = 3_000_000
    script = "python3 -c 'import random, sys; sys.stdout.buffer.write(random.randbytes(3000000))'"
    changed = {
        "layers/greet/install.sh": f"{SMALL['layers/greet/install.sh']}{script} >/opt/greet/more\n"
    }
    (tmp_path / "recipes").mkdir()
    write_small(tmp_path / "recipes", changed)
    words = ("--recipes", tmp_path / "recipes", "--output", tmp_path / "new.sif", "--no-verify")
    lumicontainer("build", "small", *words, cwd=tmp_path, code=0)
    pushed = push(tmp_path / "new.sif", f"{here}/small:new")
    assert size < pushed["moved"] < size + pushed["size"] // 100 + (2 << 20)


def test_the_bill_of_materials_is_attached(name: str, here: str, small: Path) -> None:
    digest = check_output(
        "skopeo", "inspect", "--format", "{{.Digest}}", "--tls-verify=false", f"docker://{name}"
    )
    bill = fetch_bill(f"http://{here}/v2/small", digest.strip())
    assert bill == json.loads(lumicontainer("sbom", small, code=0).stdout)


def test_an_image_of_another_program_is_refused(here: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "root/bin").mkdir(parents=True)
    check_output("apptainer", "build", tmp_path / "other.sif", tmp_path / "root")
    words = ("push", tmp_path / "other.sif", f"oci://{here}/other:1", "--format", "oci")
    done = lumicontainer(*words, code=2)
    assert "the image has no record of lumicontainer" in done.stderr
