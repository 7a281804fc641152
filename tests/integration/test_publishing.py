"""The manual's file of CI publishes images: its scripts run as they stand."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from string import Template
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from ..conftest import ROOT
from ..documents import BLOCKS, COMMANDS
from .conftest import check_output, digest, lumicontainer, pasted, write_small
from .registries import registry

BLOCKS_HERE = BLOCKS[ROOT / "docs/publishing.md"]
LOCK, COMPARE, TAG, USE = (each.script for each in BLOCKS_HERE if each.language in COMMANDS)
(JOBS,) = (yaml.safe_load(each.text) for each in BLOCKS_HERE if each.language == "yaml")
PERSON = {
    **{f"GIT_{each}_NAME": "centre" for each in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{each}_EMAIL": "centre@example.org" for each in ("AUTHOR", "COMMITTER")},
}


@dataclass
class Centre:
    """Hold a repository of images, and the variables that GitLab gives the jobs of its tags."""

    folder: Path
    host: str
    api: str
    announced: list[dict[str, list[str]]]
    """The forms of the releases that came."""

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    def type(self, script: str, month: str, folder: Path | None = None) -> None:
        """Run what the manual types, for the recipe ``small`` instead of its own."""
        names = {"pytorch pytorch-deepspeed": "small", "pytorch": "small", "2026-12": month}
        names["registry.example.org/centre/images"] = f"{self.host}/centre/images"
        for old, new in names.items():
            script = script.replace(old, new)
        self._run(script, folder or self.checkout, PERSON)

    def publish(self, month: str, key: str = "signer") -> None:
        """Run the job of a tag in a new checkout; it keeps what its artifacts name."""
        folder = self.folder / month
        check_output("git", "clone", "-q", "--branch", month, self.folder / "origin.git", folder)
        self._start("publish", month, folder, key)
        for name in JOBS["publish"]["artifacts"]["paths"]:
            shutil.copytree(folder / name, self.folder / f"{month}-kept" / name)

    def announce(self, month: str) -> str:
        """Run the job that announces a tag; return the note that came to GitLab."""
        self._start("announce", month, self.folder / f"{month}-kept")
        form = self.announced.pop()
        assert form["tag_name"] == [month]
        return form["description"][0]

    def _start(self, name: str, month: str, folder: Path, key: str = "signer") -> None:
        job: dict[str, Any] = JOBS[name]
        own = {"CI_COMMIT_TAG": month, "CI_REGISTRY_IMAGE": f"{self.host}/centre/images"}
        own |= {"CI_REGISTRY_USER": "ci", "CI_REGISTRY_PASSWORD": "x", "CI_JOB_TOKEN": "token"}
        own |= {"CI_API_V4_URL": self.api, "CI_PROJECT_ID": "7"}
        own["CI_COMMIT_TIMESTAMP"] = "2026-11-02T09:00:05+01:00"
        own["SIGNING_KEY"] = str(self.folder / f"{key}.private.pem")
        variables = job.get("variables", {}).items()
        given = {each: Template(value).substitute(own) for each, value in variables}
        self._run("\n".join(job["script"]), folder, {**own, **given, "RECIPE": "small"})

    def _run(self, script: str, folder: Path, env: dict[str, str]) -> None:
        # As GitLab's runner starts a script.
        done = pasted(f"set -eo pipefail\n{script}", cwd=folder, env=env)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def gitlab(announced: list[dict[str, list[str]]]) -> Iterator[str]:
    """Serve the address of GitLab's API to which the project 7 sends its releases."""

    class Releases(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            known = self.path == "/projects/7/releases" and self.headers["JOB-TOKEN"] == "token"
            announced.extend([parse_qs(body.decode())] if known else [])
            self.send_response(201 if known else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Releases)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def on_a_file(image: Path) -> dict[str, str]:
    """Return the base of ``small`` as one that is there: a lock would make Debian's again."""
    bootstrap = f"{{cpu: {{agent: localimage, file: {image}, sha256: {digest(image)}}}}}"
    text = f'summary: x\nbootstrap: {bootstrap}\nprovides: {{python: "3.11"}}\n'
    return {"layers/tiny/layer.yaml": text}


@pytest.fixture
def centre(small: Path, tmp_path: Path) -> Iterator[Centre]:
    """Make the repository of a centre, its keys, its registry and its GitLab."""
    for name in ("signer", "stranger"):
        private, public = tmp_path / f"{name}.private.pem", tmp_path / f"{name}.pem"
        check_output("openssl", "genpkey", "-algorithm", "RSA", "-out", private)
        check_output("openssl", "pkey", "-in", private, "-pubout", "-out", public)
    announced: list[dict[str, list[str]]] = []
    with registry(tmp_path / "registry") as host, gitlab(announced) as api:
        made = Centre(tmp_path, host, api, announced)
        check_output("git", "init", "-q", "--bare", tmp_path / "origin.git")
        check_output("git", "clone", "-q", tmp_path / "origin.git", made.checkout)
        (made.checkout / "recipes").mkdir()
        write_small(made.checkout / "recipes", on_a_file(small))
        shutil.copy(tmp_path / "signer.pem", made.checkout)
        check_output("git", "-C", made.checkout, "add", ".")
        yield made


def test_a_tag_publishes_signed_images_and_says_what_changed_since_the_last(
    centre: Centre, tmp_path: Path
) -> None:
    centre.type(LOCK, "2026-11")
    centre.type(TAG, "2026-11")
    centre.publish("2026-11")
    assert "There was no image of this name before." in centre.announce("2026-11")

    recipe = centre.checkout / "recipes/small.yaml"
    recipe.write_text(re.sub(r"greeting: .*", "greeting: good-day}", recipe.read_text()))
    centre.type(LOCK, "2026-12")
    centre.type(COMPARE, "2026-12")
    centre.type(TAG, "2026-12")
    centre.publish("2026-12")
    note = centre.announce("2026-12")
    assert "From `small-latest.sif` to `small-2026-12.sif`" in note
    assert "| `good-day` |" in note

    (tmp_path / "user").mkdir()
    shutil.copy(tmp_path / "signer.pem", tmp_path / "user")
    centre.type(USE, "2026-12", tmp_path / "user")
    (line,) = re.findall(r"(?m)^    (lumicontainer pull \S+)$", note)
    centre.type(f"{line} --output named.sif", "2026-12", tmp_path / "user")
    images = [(tmp_path / "user" / name).read_bytes() for name in ("small.sif", "named.sif")]
    assert images[0] == images[1]
    assert b"Monday_2_November_2026_8:0:5_UTC" in images[0]


def test_an_image_that_another_key_signed_is_not_published(centre: Centre) -> None:
    centre.type(LOCK, "2026-11")
    centre.type(TAG, "2026-11")
    with pytest.raises(AssertionError, match="signed by another key"):
        centre.publish("2026-11", key="stranger")
    name = f"oci://{centre.host}/centre/images/small:2026-11"
    lumicontainer("pull", name, cwd=centre.folder, code=6)
