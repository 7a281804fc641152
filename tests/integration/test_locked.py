"""A recipe is locked and built by its lock alone; what changed since is not taken."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.errors import DOWNLOAD_FAILED

from ..conftest import CHECK
from ..packages import write_wheel
from ..unit.host.test_fetch import UPSTREAM, Upstream
from .conftest import digest, inside, lumicontainer, write_files

FILE, LOCK = "words.txt", "locks/held.workstation.lock.yaml"
LAYERS = {
    "held.yaml": "summary: an image to lock\nbase: tiny\nlayers: [venv, built, thing]\n",
    "layers/tiny/layer.yaml": (
        "summary: Debian with Python\nbootstrap:\n"
        "  cpu: {agent: debootstrap, release: bookworm, docker_image: 'debian:bookworm',"
        " include: [python3]}\n"
        'provides: {glibc: "2.36", python: "3.11"}\n'
    ),
    "layers/venv/layer.yaml": (
        "summary: what others are fetched and installed with\n"
        "packages: {apt: [python3-venv, ca-certificates, curl, git]}\npath: [/opt/venv/bin]\n"
    ),
    "layers/venv/install.sh": "set -euo pipefail\npython3 -m venv /opt/venv\n",
    "layers/thing/install.sh": (
        "set -euo pipefail\nmkdir /opt/thing\n"
        f'cp "$sources/{FILE}" "$sources/tool/tool" /opt/thing\n'
    ),
    "layers/built/layer.yaml": (
        "summary: of packages that have no wheel\nrequires: [venv]\n"
        "packages: {apt: [hello], python: [innerofheld]}\n"
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
import pathlib, zipfile

CANARY = pathlib.Path({canary!r})
CANARY.parent.mkdir(parents=True, exist_ok=True)
CANARY.touch()
# A package of apt's that the layer itself takes says that this is the image.
NEED = {need!r} if pathlib.Path({seen!r}).exists() else "apt-package-is-missing"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name, info = "{name}-1.0+held-py3-none-any.whl", "{name}-1.0+held.dist-info/"
    needs = f"Requires-Dist: {{NEED}}\\n" if NEED else ""
    metadata = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0+held\\n{{needs}}"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        wheel.writestr("{name}.py", "NAME = '{name}'")
        wheel.writestr(info + "METADATA", metadata)
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""


def write_source(
    folder: Path, name: str, canary: Path, need: str = "", seen: str = "/usr/bin/hello"
) -> str:
    """Write a source distribution whose code writes the canary; return its sha256.

    It is of no use if the file ``seen`` is missing.
    """
    backend = BACKEND.format(name=name, need=need, canary=str(canary), seen=seen)
    called = f"{name}-1.0+held"
    files = {"pyproject.toml": PROJECT, "backend.py": backend}
    write_files(folder / "unpacked" / called, files)
    archive = shutil.make_archive(str(folder / called), "gztar", folder / "unpacked", called)
    return digest(Path(archive))


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file that code of the sources writes wherever it runs."""
    return tmp_path_factory.mktemp("host") / "canary"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, canary: Path) -> Iterator[dict[str, str]]:
    """Offer pip two sources, of which one needs the other, and return their sha256 by name.

    The one has an older wheel, which needs nothing.
    """
    folder = tmp_path_factory.mktemp("sources")
    # No public index has a version with a local part.
    folders = {"deeperofheld": write_source(folder, "deeperofheld", canary)}
    needed = "deeperofheld==1.0+held"
    write_wheel(folder, "innerofheld", "0.9")
    folders["innerofheld"] = write_source(folder, "innerofheld", canary, needed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_FIND_LINKS", f"{os.environ.get('PIP_FIND_LINKS', '')} {folder}".strip())
        yield folders


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    """Make what lies upstream: a file, and a repository whose commit no branch ends with."""
    upstream = Upstream(tmp_path_factory.mktemp("upstream"))
    (upstream.served / FILE).write_text("first\n")
    upstream.later(upstream.repository("tool", tool="a tool\n"))
    return upstream


@pytest.fixture(scope="module")
def commit(upstream: Upstream) -> str:
    return upstream.git("rev-parse", "HEAD~1", at=upstream.served / "tool")


@pytest.fixture(scope="module")
def mirror(upstream: Upstream) -> list[str]:
    return ["--mirror", f"{UPSTREAM}={upstream.served}/"]


@pytest.fixture(scope="module")
def cached_base(base_object: Path) -> int:
    """Return the inode of the base that builds without a lock use, before ``held`` is locked."""
    return base_object.stat().st_ino


@pytest.fixture(scope="module")
def locked(
    tmp_path_factory: pytest.TempPathFactory,
    commit: str,
    mirror: list[str],
    sources: dict[str, str],
    cached_base: int,
) -> tuple[Path, str]:
    """Lock ``held``; return the folder of recipes, and what ``lock`` printed."""
    thing = {"layers/thing/layer.yaml": THING.format(commit=commit[:8])}
    folder = write_files(tmp_path_factory.mktemp("held"), {**LAYERS, **thing})
    done = lumicontainer("lock", "held", "--recipes", folder, *mirror, code=0)
    assert done.stdout == f"{folder / LOCK}\n"
    return folder, done.stderr


@pytest.fixture(scope="module")
def held(locked: tuple[Path, str]) -> tuple[Path, str]:
    """Return a folder of recipes with the lock of ``held``, and its text."""
    folder, _ = locked
    return folder, (folder / LOCK).read_text()


def test_a_base_is_made_once_for_apt_and_for_the_pip_of_the_image(locked: tuple[Path, str]) -> None:
    _, printed = locked
    assert len(re.findall(r"(?m) base +begins$", printed)) == 1, printed
    assert re.search(r"(?m) base +cached$", printed)


@pytest.mark.usefixtures("locked")
def test_builds_without_a_lock_go_on_with_the_base_that_they_have(
    base_object: Path, cached_base: int
) -> None:
    assert base_object.stat().st_ino == cached_base


def test_the_lock_holds_one_of_each_kind_and_what_they_need(
    held: tuple[Path, str], upstream: Upstream, commit: str
) -> None:
    _, text = held
    for pattern in (
        r'- debootstrap: bookworm\n +pin: "?[0-9a-f]{64}"?\n',
        r"- apt: sl\n +pin: sl=[0-9]\S+ --hash=sha256:\w{64}\n",
        r"- apt: python3\.11-venv\n +dependency: true\n +pin: python3\.11-venv=\S+ --hash=",
        r"- python: jinja2==3\.1\.6\n +pin: jinja2==3\.1\.6 --hash=sha256:\w{64}\n",
        r"- python: markupsafe\n +dependency: true\n +pin: markupsafe==[0-9]",
        rf"- git: {UPSTREAM}tool\n +file: tool\n",
        commit,
    ):
        assert re.search(pattern, text), text
    assert not re.search(r"https?://(?!upstream\.invalid/)", text)
    assert str(upstream.served) not in text
    assert "unpinned: " not in text


def test_the_code_of_a_source_says_in_the_image_alone_what_it_needs(
    held: tuple[Path, str], sources: dict[str, str], canary: Path
) -> None:
    _, text = held
    pins = {name: f"{name}==1.0+held --hash=sha256:{sources[name]}" for name in sources}
    inner, deeper = pins["innerofheld"], pins["deeperofheld"]
    assert f"- python: innerofheld\n      pin: {inner}\n" in text
    assert f"- python: deeperofheld\n      dependency: true\n      pin: {deeper}\n" in text
    assert not canary.exists()


def installed(image: Path) -> dict[str, str]:
    """Return the versions of an image's Debian packages by name."""
    listed = json.loads(lumicontainer("inspect", image, "--packages", "--json").stdout)["system"]
    return {name.partition(":")[0]: version for name, version in listed.items()}


def test_an_image_is_built_of_what_is_locked_and_of_nothing_that_came_since(
    held: tuple[Path, str], upstream: Upstream, mirror: list[str], tmp_path: Path
) -> None:
    folder, text = held
    image = tmp_path / "held.sif"
    words = ("build", "held", "--recipes", folder, "--locked", "--output", image, *mirror)
    (upstream.served / FILE).write_text("second\n")
    done = lumicontainer(*words, code=DOWNLOAD_FAILED)
    assert f"'{FILE}' does not match its sha256" in done.stderr
    assert not image.exists()

    (upstream.served / FILE).write_text("first\n")
    lumicontainer(*words, code=0)
    packages = installed(image)
    pins = re.findall(r"- apt: \S+\n(?: +dependency: true\n)? +pin: (\S+)=(\S+)", text)
    assert {name: packages[name] for name, _ in pins} == dict(pins)
    pip = ("python3", "-m", "pip", "list", "--format=json")
    versions = {each["name"].lower(): each["version"] for each in json.loads(inside(image, *pip))}
    assert versions["jinja2"] == "3.1.6"
    assert f"markupsafe=={versions['markupsafe']} " in text
    names = "import innerofheld as a, deeperofheld as b; print(a.NAME, b.NAME)"
    assert inside(image, "python3", "-c", names) == "innerofheld deeperofheld\n"
    assert inside(image, "cat", "/opt/thing/tool", f"/opt/thing/{FILE}") == "a tool\nfirst\n"


def test_a_package_that_the_mirror_no_longer_has_is_named_with_a_hint(
    held: tuple[Path, str], mirror: list[str], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(held[0], tmp_path / "later"))
    (lock,) = folder.glob("locks/*.lock.yaml")
    lock.write_text(re.sub(r"pin: python3-venv=\S+", "pin: python3-venv=3.11.0-0", held[1]))
    words = ("--recipes", folder, "--locked", "--output", tmp_path / "later.sif", *mirror)
    done = lumicontainer("build", "held", *words, code=DOWNLOAD_FAILED)
    assert "apt does not have the file of 'python3-venv=3.11.0-0'" in done.stderr
    assert "hint: write a new lock, or name a mirror of the lock's time" in done.stderr


def test_what_needs_a_base_that_cannot_be_made_here_is_open(
    held: tuple[Path, str], mirror: list[str], tmp_path: Path
) -> None:
    words = ("--recipes", held[0], "--output", tmp_path / "x.yaml", *mirror)
    alone = {"PATH": "/usr/bin:/bin", "LUMICONTAINER_CACHE": "/proc/self"}
    lumicontainer("lock", "held", *words, env=alone, code=1)
    text = (tmp_path / "x.yaml").read_text()
    assert "- debootstrap: bookworm\n      unpinned: the base could not be made here\n" in text
    reason = "has no wheel; the layers below cannot be made: bookworm of 'tiny'"
    assert f"innerofheld {reason}" in " ".join(text.replace("''", "'").split())
