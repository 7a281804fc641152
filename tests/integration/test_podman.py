"""Images that are left in Docker or Podman have the variables of the recipe, byte for byte."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.host.docker.daemon import connect
from lumicontainer.host.docker.image import ImageSpec, instructions

from ..namespaces import as_root
from .conftest import STRANGE_LINES, run
from .processes import until

SECONDS = 60
VALUES = {**STRANGE_LINES, "QUOTED": '"both"', "QUOTE": '"'}


@pytest.fixture
def podman() -> Iterator[dict[str, str]]:
    """Run Podman's service with its files in a private folder; return what names it."""
    # Podman refuses a path of more than 50 characters.
    folder = Path(tempfile.mkdtemp(prefix="podman-", dir="/tmp"))
    socket, log = folder / "socket", folder / "log"
    files = [word for name in ("root", "runroot") for word in (f"--{name}", folder / name)]
    words = [*as_root(), "podman", *files, "--storage-driver=vfs", "system", "service"]
    command = [str(word) for word in (*words, f"--time={SECONDS}", f"unix://{socket}")]
    with log.open("w") as file:
        service = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        assert until(lambda: socket.exists() or service.poll(), SECONDS), log.read_text()
        assert service.poll() is None, log.read_text()
        run([*as_root(), "chown", os.getuid(), socket])
        yield {"DOCKER_HOST": f"unix://{socket}"}
    finally:
        run([*as_root(), "kill", service.pid])
        service.wait()
        run([*as_root(), "rm", "-rf", "--one-file-system", folder])


@pytest.mark.parametrize("engine", ["docker_host", "podman"])
def test_an_image_has_the_variables_and_labels_of_its_recipe(
    engine: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in request.getfixturevalue(engine).items():
        monkeypatch.setenv(name, value)
    client = connect()
    labels = {f"of.{name}": value for name, value in VALUES.items()}
    spec = ImageSpec("", "", "", labels, VALUES, ["/bin/a word", "$HOME"])
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("file"))
    made = client.api.import_image_from_data(content.getvalue(), changes=instructions(client, spec))
    image = json.loads(made.splitlines()[-1])["status"]
    try:
        config = client.api.inspect_image(image)["Config"]
    finally:
        client.images.remove(image, force=True)
    rows = (row.partition("=") for row in config["Env"])
    assert {name: value for name, _, value in rows if name in VALUES} == VALUES
    assert config["Labels"] == labels
    assert config["Entrypoint"] == spec.entry_point
