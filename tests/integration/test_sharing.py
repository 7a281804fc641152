"""Images go to a real registry and come back, also by programs that are not ours."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import ENGINE, SMALL, check_output, digest, lumicontainer, pasted, write_small
from .registries import PASSWORD, fetch_bill, registry

WITHOUT_LOGIN = {"APPTAINER_DOCKER_USERNAME": "", "APPTAINER_DOCKER_PASSWORD": ""}
LOGIN = {"APPTAINER_DOCKER_USERNAME": "me", "APPTAINER_DOCKER_PASSWORD": PASSWORD}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


def test_an_image_comes_back_and_runs(here: str, small: Path, tmp_path: Path) -> None:
    name = lumicontainer("push", small, f"oci://{here}/small:1", code=0).stdout.strip()
    assert re.fullmatch(rf"oci://{here}/small@sha256:[0-9a-f]{{64}}", name)
    done = lumicontainer("pull", name, cwd=tmp_path, code=0)
    assert done.stdout == f"{tmp_path / 'small.sif'}\n"
    assert digest(tmp_path / "small.sif") == digest(small)
    assert lumicontainer("run", tmp_path / "small.sif", "--", "true", code=0)


def test_the_bill_of_materials_of_an_image_is_attached(here: str, small: Path) -> None:
    name = lumicontainer("push", small, f"oci://{here}/bill:1", code=0).stdout.strip()
    bill = fetch_bill(f"http://{here}/v2/bill", name.rpartition("@")[2])
    assert bill == json.loads(lumicontainer("sbom", small, code=0).stdout)


def test_a_changed_layer_is_sent_and_fetched_alone(
    here: str, small: Path, recipes: Path, tmp_path: Path
) -> None:
    size, script = 3_000_000, SMALL["layers/greet/install.sh"]
    script += f"python3 -c 'import random, sys; sys.stdout.buffer.write(random.randbytes({size}))'"
    (tmp_path / "recipes").mkdir()
    changed = {"layers/greet/install.sh": f"{script} >/opt/greet/more\n"}
    write_small(tmp_path / "recipes", changed)
    words = ("--recipes", tmp_path / "recipes", "--output", tmp_path / "new.sif", "--no-verify")
    lumicontainer("build", "small", *words, cwd=tmp_path, code=0)
    lumicontainer("push", small, f"oci://{here}/changed:1", code=0)
    new = f"oci://{here}/changed:2"
    pushed = json.loads(lumicontainer("push", tmp_path / "new.sif", new, "--json", code=0).stdout)
    shutil.copy(small, tmp_path / "small.sif")
    words = ("pull", new, "-o", tmp_path / "small.sif", "--json")
    empty = {"LUMICONTAINER_CACHE": str(tmp_path / "empty")}
    pulled = json.loads(lumicontainer(*words, env=empty, code=0).stdout)
    assert digest(tmp_path / "small.sif") == digest(tmp_path / "new.sif")
    assert size < pushed["moved"] < size + pushed["size"] // 100 + (2 << 20)
    assert pulled["moved"] == pushed["moved"]


def test_a_pull_takes_the_data_of_layers_from_the_cache(
    here: str, small: Path, tmp_path: Path
) -> None:
    name = lumicontainer("push", small, f"oci://{here}/cached:1", code=0).stdout.strip()
    words = ("pull", name, "-o", tmp_path / "new.sif", "--json")
    pulled = json.loads(lumicontainer(*words, code=0).stdout)
    assert digest(tmp_path / "new.sif") == digest(small)
    assert pulled["moved"] < pulled["size"] // 2


def test_curl_joins_the_blobs_to_the_image(here: str, small: Path, tmp_path: Path) -> None:
    """It is the line of the manual."""
    lumicontainer("push", small, f"oci://{here}/small:1", code=0)
    page = (Path(__file__).parents[2] / "docs/sharing.md").read_text()
    (script,) = re.findall(r"```sh\n(base=.*?)```", page, re.DOTALL)
    line = script.replace(
        "https://registry.example.org/v2/project/image", f"http://{here}/v2/small"
    )
    done = pasted(line.replace("manifests/1.0", "manifests/1"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert digest(tmp_path / "image.sif") == digest(small)


def test_engines_and_we_read_one_blob_of_each_other(here: str, small: Path, tmp_path: Path) -> None:
    lumicontainer("push", small, f"oci://{here}/ours:1", "--format", "sif", code=0)
    check_output(ENGINE, "pull", "--no-https", tmp_path / "ours.sif", f"oras://{here}/ours:1")
    assert digest(tmp_path / "ours.sif") == digest(small)
    check_output(ENGINE, "push", "-U", "--no-https", small, f"oras://{here}/theirs:1")
    lumicontainer("pull", f"oci://{here}/theirs:1", "-o", tmp_path / "theirs.sif", code=0)
    assert digest(tmp_path / "theirs.sif") == digest(small)


def test_a_registry_with_a_certificate_and_a_password(small: Path, tmp_path: Path) -> None:
    with registry(tmp_path / "registry", guarded=True) as host:
        name, trust = f"oci://{host}/small:1", {"SSL_CERT_FILE": str(tmp_path / "registry/ca.pem")}
        unknown = lumicontainer("push", small, name, env=LOGIN, code=6)
        assert "hint: name the certificates of its operator: export SSL_CERT_FILE=FILE" in (
            unknown.stderr
        )
        stranger = lumicontainer("push", small, name, env={**WITHOUT_LOGIN, **trust}, code=6)
        assert "hint: log in: apptainer registry login" in stranger.stderr
        lumicontainer("push", small, name, env={**LOGIN, **trust}, code=0)
        words = ("pull", name, "-o", tmp_path / "new.sif")
        done = lumicontainer(*words, env={**LOGIN, **trust}, code=0)
        assert digest(tmp_path / "new.sif") == digest(small)
        assert PASSWORD not in done.stderr + unknown.stderr + stranger.stderr


def test_a_registry_that_is_read_only_says_so(small: Path, tmp_path: Path) -> None:
    with registry(tmp_path / "registry", read_only=True) as host:
        done = lumicontainer("push", small, f"oci://{host}/small:1", code=6)
    assert "it may be read-only" in done.stderr


def test_what_a_pull_would_replace_must_be_an_image(here: str, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    done = lumicontainer("pull", f"oci://{here}/small:1", "-o", tmp_path / "notes", code=2)
    assert "the output is not an image" in done.stderr
    assert (tmp_path / "notes").read_text() == "mine"


def test_an_image_that_is_not_there_is_named(here: str, tmp_path: Path) -> None:
    done = lumicontainer("pull", f"oci://{here}/nothing:1", cwd=tmp_path, code=6)
    assert f"where: oci://{here}/nothing:1" in done.stderr
    assert "check the name and the tag" in done.stderr
    assert list(tmp_path.iterdir()) == []
