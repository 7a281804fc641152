"""A recipe is locked and built by its lock alone; what changed since is not taken."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lumicontainer.errors import DOWNLOAD_FAILED, LOCK_STALE

from ..conftest import CHECK
from .conftest import lumicontainer

UPSTREAM = "https://upstream.invalid/"
FILE = "words.txt"
LAYERS = {
    "held.yaml": "summary: an image to lock\nbase: tiny\nlayers: [venv, built, thing]\n",
    "layers/tiny/layer.yaml": (
        "summary: Debian with Python\nbootstrap:\n"
        "  cpu: {agent: debootstrap, release: bookworm, docker_image: 'debian:bookworm',"
        " include: [ca-certificates, python3]}\n"
        'provides: {glibc: "2.36", python: "3.11"}\n'
    ),
    "layers/venv/layer.yaml": (
        "summary: what others are fetched and installed with\n"
        "packages: {apt: [python3-venv, curl, git]}\npath: [/opt/venv/bin]\n"
    ),
    "layers/venv/install.sh": "set -euo pipefail\npython3 -m venv /opt/venv\n",
    "layers/thing/install.sh": (
        "set -euo pipefail\nmkdir /opt/thing\n"
        f'cp "$sources/{FILE}" "$sources/tool/tool" /opt/thing\n'
    ),
    "layers/built/layer.yaml": (
        "summary: of packages that have no wheel\nrequires: [venv]\n"
        "packages: {apt: [hello], python: [innerofheld==1.0+held]}\n"
    ),
    "layers/thing/checks/thing.sh": f"{CHECK}test -s /opt/thing/tool\n",
}
THING = (
    "summary: of one package of each kind\nrequires: [venv]\n"
    "packages: {{apt: [sl], python: [jinja2==3.1.6]}}\n"
    "sources:\n"
    f"  - {{{{git: '{UPSTREAM}tool', commit: '{{commit}}', folder: tool}}}}\n"
    f"  - {{{{url: '{UPSTREAM}{FILE}', file: {FILE}}}}}\n"
)

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """\
import os, pathlib, zipfile

NAME, NEED, CANARY = {name!r}, {need!r}, pathlib.Path({canary!r})
INFO = NAME + "-1.0+held.dist-info"


def note(hook):
    CANARY.parent.mkdir(parents=True, exist_ok=True)
    with CANARY.open("a") as file:
        file.write(f"{{hook}} of {{NAME}} on {{os.uname().nodename}}\\n")


def metadata():
    note("metadata")
    # A package of apt's that the layer itself takes says that this is the image.
    need = NEED if pathlib.Path("/usr/bin/hello").exists() else "apt-package-is-missing"
    lines = ["Metadata-Version: 2.1", "Name: " + NAME, "Version: 1.0+held"]
    return "\\n".join(lines + ["Requires-Dist: " + need] * bool(NEED)) + "\\n"


def get_requires_for_build_wheel(config_settings=None):
    note("requires")
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory, INFO)
    folder.mkdir()
    (folder / "METADATA").write_text(metadata())
    return INFO


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = NAME + "-1.0+held-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        wheel.writestr(NAME + ".py", "NAME = " + repr(NAME))
        wheel.writestr(INFO + "/METADATA", metadata())
        wheel.writestr(INFO + "/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(INFO + "/RECORD", "")
    return name
"""


def write_source(folder: Path, name: str, canary: Path, need: str = "") -> str:
    """Write a source distribution whose code writes the canary; return its sha256."""
    backend = BACKEND.format(name=name, need=need, canary=str(canary))
    path = folder / f"{name}-1.0+held.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for member, text in {"pyproject.toml": PROJECT, "backend.py": backend}.items():
            info = tarfile.TarInfo(f"{name}-1.0+held/{member}")
            info.size = len(text)
            file.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file that code of the sources writes wherever it runs."""
    return tmp_path_factory.mktemp("host") / "canary"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, canary: Path) -> Iterator[dict[str, str]]:
    """Offer pip two sources, of which one needs the other, and return their sha256 by name."""
    folder = tmp_path_factory.mktemp("sources")
    # No public index has a version with a local part.
    found = {"deeperofheld": write_source(folder, "deeperofheld", canary)}
    needed = "deeperofheld==1.0+held"
    found["innerofheld"] = write_source(folder, "innerofheld", canary, needed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_FIND_LINKS", f"{os.environ.get('PIP_FIND_LINKS', '')} {folder}".strip())
        yield found


def git(folder: Path, *words: str) -> str:
    settings = ["user.name=x", "user.email=x", "init.defaultBranch=main"]
    options = [word for each in settings for word in ("-c", each)]
    done = subprocess.run(
        ["git", *options, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a served folder: a file, and a repository whose commit no branch ends with."""
    folder = tmp_path_factory.mktemp("served")
    (folder / FILE).write_text("first\n")
    (folder / "tool").mkdir()
    git(folder / "tool", "init", "--quiet")
    (folder / "tool" / "tool").write_text("a tool\n")
    git(folder / "tool", "add", ".")
    git(folder / "tool", "commit", "--quiet", "--message=one")
    git(folder / "tool", "commit", "--quiet", "--allow-empty", "--message=two")
    return folder


@pytest.fixture(scope="module")
def mirrors(served: Path) -> Iterator[list[str]]:
    """Serve the file over loopback, and give the options that name it and the repository."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(served))
    handler.func.log_message = lambda *_: None  # type: ignore[attr-defined]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        here = f"http://127.0.0.1:{server.server_port}/"
        yield ["--mirror", f"{UPSTREAM}={here}", "--mirror", f"{UPSTREAM}tool={served / 'tool'}"]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def held(
    tmp_path_factory: pytest.TempPathFactory,
    served: Path,
    mirrors: list[str],
    sources: dict[str, str],
) -> tuple[Path, str]:
    """Return a folder of recipes with the lock of ``held``, and its text."""
    folder = tmp_path_factory.mktemp("held")
    thing = THING.format(commit=git(served / "tool", "rev-parse", "HEAD~1")[:8])
    for name, text in {**LAYERS, "layers/thing/layer.yaml": thing}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = lumicontainer("lock", "held", "--recipes", folder, *mirrors)
    assert done.returncode == 0, done.stderr
    path = folder / "locks/held.workstation.lock.yaml"
    assert done.stdout == f"{path}\n"
    return folder, path.read_text()


def test_the_lock_holds_one_of_each_kind_and_what_they_need(
    held: tuple[Path, str], served: Path
) -> None:
    _, text = held
    assert re.search(r'- debootstrap: bookworm\n +pin: "?[0-9a-f]{64}"?\n', text)
    assert re.search(r"- apt: sl\n +pin: sl=[0-9]\S+\n", text)
    assert re.search(r"- apt: python3\.11-venv\n +dependency: true\n +pin: python3\.11-venv=", text)
    assert re.search(
        r"- python: jinja2==3\.1\.6\n +pin: jinja2==3\.1\.6 --hash=sha256:\w{64}\n", text
    )
    assert re.search(r"- python: markupsafe\n +dependency: true\n +pin: markupsafe==[0-9]", text)
    assert re.search(rf"- git: {UPSTREAM}tool\n +file: tool\n", text)
    assert git(served / "tool", "rev-parse", "HEAD~1") in text
    assert not re.search(r"https?://(?!upstream\.invalid/)", text)
    assert str(served) not in text
    assert "unpinned: " not in text


def test_the_code_of_a_source_says_in_the_image_alone_what_it_needs(
    held: tuple[Path, str], sources: dict[str, str], canary: Path
) -> None:
    _, text = held
    pins = {name: f"{name}==1.0+held --hash=sha256:{sources[name]}" for name in sources}
    inner, deeper = pins["innerofheld"], pins["deeperofheld"]
    assert f"- python: innerofheld==1.0+held\n      pin: {inner}\n" in text
    assert f"- python: deeperofheld\n      dependency: true\n      pin: {deeper}\n" in text
    assert not canary.exists()


def test_an_image_is_built_of_what_is_locked_and_of_nothing_that_came_since(
    held: tuple[Path, str], served: Path, mirrors: list[str], tmp_path: Path
) -> None:
    folder, text = held
    image = tmp_path / "held.sif"
    words = ["build", "held", "--recipes", folder, "--locked", "--output", image, *mirrors]
    (served / FILE).write_text("second\n")
    done = lumicontainer(*words)
    assert done.returncode == DOWNLOAD_FAILED, done.stderr
    assert f"'{FILE}' does not match its sha256" in done.stderr
    assert not image.exists()

    (served / FILE).write_text("first\n")
    done = lumicontainer(*words)
    assert done.returncode == 0, done.stderr
    listed = json.loads(lumicontainer("inspect", image, "--packages", "--json").stdout)["system"]
    packages = {name.partition(":")[0]: version for name, version in listed.items()}
    for name, version in re.findall(
        r"- apt: \S+\n(?: +dependency: true\n)? +pin: (\S+)=(\S+)", text
    ):
        assert packages[name] == version, name
    listed = lumicontainer("run", image, "--", "python3", "-m", "pip", "list", "--format=json")
    versions = {each["name"].lower(): each["version"] for each in json.loads(listed.stdout)}
    assert versions["jinja2"] == "3.1.6"
    assert f"markupsafe=={versions['markupsafe']} " in text
    names = "import innerofheld as a, deeperofheld as b; print(a.NAME, b.NAME)"
    shown = lumicontainer("run", image, "--", "python3", "-c", names)
    assert shown.stdout == "innerofheld deeperofheld\n"
    shown = lumicontainer("run", image, "--", "cat", "/opt/thing/tool", f"/opt/thing/{FILE}")
    assert shown.stdout == "a tool\nfirst\n"


def test_a_package_that_the_mirror_no_longer_has_is_named_with_a_hint(
    held: tuple[Path, str], mirrors: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "later"
    shutil.copytree(held[0], folder)
    (lock,) = folder.glob("locks/*.lock.yaml")
    lock.write_text(
        re.sub(r"pin: python3-venv=\S+", "pin: python3-venv=3.11.0-0", lock.read_text())
    )
    words = ("--recipes", folder, "--locked", "--output", tmp_path / "later.sif", *mirrors)
    done = lumicontainer("build", "held", *words)
    assert done.returncode == DOWNLOAD_FAILED, done.stderr
    assert "Version '3.11.0-0' for 'python3-venv' was not found" in done.stderr
    assert "hint: write a new lock, or name a mirror of the lock's time" in done.stderr


def test_what_cannot_be_asked_is_open_and_not_built(
    held: tuple[Path, str], mirrors: list[str], tmp_path: Path
) -> None:
    folder, _ = held
    own = tmp_path / "x.yaml"
    lost = ["--mirror", f"{UPSTREAM}=http://127.0.0.1:9/", *mirrors[2:]]
    # Nothing else is asked again: the base is what takes long.
    alone = {"PATH": "/usr/bin:/bin", "LUMICONTAINER_CACHE": "/proc/self"}
    done = lumicontainer("lock", "held", "--recipes", folder, "--output", own, *lost, env=alone)
    assert done.returncode == 1, done.stderr
    assert re.search(
        rf"- url: \S+\n +file: {FILE}\n +unpinned: it could not be downloaded\n", own.read_text()
    )
    assert (
        "- debootstrap: bookworm\n      unpinned: the base could not be made here\n"
        in own.read_text()
    )
    reason = (
        "innerofheld==1.0+held has no wheel; the layers below cannot be made: bookworm of 'tiny'"
    )
    assert reason in " ".join(own.read_text().replace("''", "'").split())
    (folder / "locks/held.workstation.lock.yaml").write_text(own.read_text())
    done = lumicontainer("build", "held", "--recipes", folder, "--locked", *mirrors)
    assert done.returncode == LOCK_STALE
    assert f"{FILE} from {UPSTREAM}{FILE}: open, it could not be downloaded" in done.stderr
