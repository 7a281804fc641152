"""A site without the internet builds by its mirrors: each kind of source comes from this machine.

Upstream's hosts are names that do not exist, and what asks for another host meets a proxy that is
not there. The base image lies in a real registry. Apt's archives are the test's own: one stands for
the base's distribution, one for AMD's repositories, and the shipped layer rocm installs from it.
"""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.errors import DOWNLOAD_FAILED

from ..conftest import ROOT
from ..recipes.scripts import make_wheel
from ..stand_in_archive import Package, StandInArchive, stand_in_archive
from ..stand_in_rocm import stand_in_rocm
from ..unit.host.test_fetch import UPSTREAM, Upstream
from .conftest import check_output, debian, digest, inside, lumicontainer, started, write_files
from .registries import registry
from .test_locked import installed

AMD = "https://repo.radeon.com/"
ARCHIVE = "http://archive.invalid/debian"
BASE = "library/stand-in-base:1"
WHEEL = "from_a_folder-1.0-py3-none-any.whl"
ROCM = ROOT / "recipes/layers/rocm"
LAYERS = {
    "near.yaml": (
        "summary: of sources that are near\nbase: tiny\nlayers:\n"
        "  - venv\n  - rocm: {provider: amd, version: '6.4.4', key_fingerprint: 'KEY'}\n  - thing\n"
    ),
    "envs/here.yaml": "summary: this machine, taken for one with AMD's GPUs\naccelerator: rocm\n",
    "layers/tiny/layer.yaml": (
        "summary: Debian, from a registry\n"
        "bootstrap:\n  rocm: {agent: docker, docker_image: 'docker.io/library/stand-in-base:1'}\n"
        'provides: {glibc: "2.36", python: "3.11"}\n'
    ),
    "layers/venv/layer.yaml": "summary: pip\npath: [/opt/venv/bin]\n",
    "layers/venv/install.sh": "set -euo pipefail\npython3 -m venv /opt/venv\n",
    "layers/thing/layer.yaml": (
        "summary: of one source of each kind\nrequires: [venv]\n"
        "packages: {apt: [from-the-archive], python: [from-a-folder==1.0]}\n"
        "sources:\n"
        f"  - {{git: '{UPSTREAM}tool', commit: 'COMMIT', folder: tool}}\n"
        f"  - {{url: '{UPSTREAM}words.txt', file: words.txt}}\n"
    ),
    "layers/thing/install.sh": (
        "set -euo pipefail\nmkdir /opt/thing\n"
        'cp "$sources/words.txt" "$sources/tool/tool" /opt/thing\n'
    ),
}


@dataclass(frozen=True)
class Site:
    """Hold a site's mirrors, and recipes of what they have, below a folder."""

    work: Path
    archive: StandInArchive
    registry: str
    options: list[str]
    environment: dict[str, str]

    def lumicontainer(self, verb: str, *words: object, code: int = 0):
        """Run a verb for the one recipe, with the site's mirrors and nothing else in reach."""
        always = ("near", "--recipes", self.work / "recipes", "--platform", "here", *self.options)
        return lumicontainer(verb, *always, *words, env=self.environment, code=code)

    def publish_rocm(self, *builds: str) -> None:
        """Publish builds of ROCm 6.4.4 in AMD's place."""
        archives = [stand_in_rocm(build=build) for build in builds]
        for folder in archives[0]:
            packages = [package for each in archives for package in each[folder]]
            origin = "repo.radeon.com"
            self.archive.publish(f"amd/{folder}", packages, suite="bookworm", origin=origin)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run the registry, fill it by Docker, and give the options that name all that there is."""
    work = tmp_path_factory.mktemp("site")
    upstream = Upstream(work)
    (upstream.served / "words.txt").write_text("some words\n")
    commit = upstream.git("rev-parse", "HEAD", at=upstream.repository("tool", tool="a tool\n"))
    make_wheel(upstream.served, WHEEL, {"from_a_folder.py": "said = 'from a folder'\n"})
    archives = tmp_path_factory.mktemp("archives")
    with stand_in_archive(archives) as archive, registry(work / "registry") as here:
        _recipes(work / "recipes", archive.make_key(), commit)
        write_files(archives / "amd/rocm", {"rocm.gpg.key": archive.key()})
        package = Package("from-the-archive", {"opt/from-the-archive": "here\n"})
        archive.publish("debian", [package], suite="bookworm", origin="Debian")
        push(_base(work, archive.key()), f"{here}/{BASE}")
        mirrors = {
            "docker://docker.io/": f"http://{here}/",
            UPSTREAM: f"{upstream.served}/",
            ARCHIVE: archives / "debian",
            AMD: f"{archives / 'amd'}/",
        }
        environment = {
            **{f"{each}_proxy": "http://127.0.0.1:9" for each in ("http", "https", "all")},
            "no_proxy": "127.0.0.1",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(upstream.served),
            "LUMICONTAINER_CACHE": str(work / "cache"),
        }
        options = [word for old, new in mirrors.items() for word in ("--mirror", f"{old}={new}")]
        place = Site(work, archive, here, options, environment)
        place.publish_rocm("129")
        yield place


def _base(work: Path, key: str) -> Path:
    """Return Debian as an archive of files, which knows no archive of packages but the test's."""
    tools = "--include=ca-certificates,curl,git,gpg,python3-venv"
    hook = "--customize-hook=rm -rf $1/etc/apt/sources.list $1/etc/apt/sources.list.d/*"
    path = shutil.copy(debian("without-internet-bookworm", tools, hook), work / "base.tar")
    source = f"deb [signed-by=/etc/apt/keyrings/own.asc] {ARCHIVE} bookworm main\n"
    files = {"etc/apt/keyrings/own.asc": key, "etc/apt/sources.list": source}
    owned = ("--owner=root", "--group=root", "-C", write_files(work / "base", files))
    check_output("tar", "--append", "--file", path, *owned, *files)
    return path


def _recipes(folder: Path, key: str, commit: str) -> None:
    """Write the recipe; of the layer rocm without checks, which stand-ins fail, and its size."""
    texts = {n: t.replace("KEY", key).replace("COMMIT", commit) for n, t in LAYERS.items()}
    write_files(folder, texts)
    shutil.copytree(ROCM, folder / "layers/rocm", ignore=shutil.ignore_patterns("checks"))
    layer = folder / "layers/rocm/layer.yaml"
    layer.write_text(re.sub(r"\n +expects: .*", "", layer.read_text()))


def push(tar: Path, image: str) -> None:
    """Give a registry an image by Docker, as whoever fills a mirror does."""
    env = started("docker")
    for words in (["import", tar, image], ["push", image], ["rmi", image]):
        check_output("docker", *words, env=env)


@pytest.fixture(scope="module")
def image(site: Site, lock: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the recipe without its lock, once newer packages have been published."""
    site.publish_rocm("129", "130")
    path = tmp_path_factory.mktemp("image") / "near.sif"
    site.lumicontainer("build", "--no-verify", "--output", path)
    return path


@pytest.fixture(scope="module")
def lock(site: Site) -> str:
    """Lock the recipe by the mirrors, and return the text of the lock."""
    return Path(site.lumicontainer("lock").stdout.strip()).read_text()


def test_an_image_is_built_of_nothing_but_what_this_machine_has(image: Path) -> None:
    files = inside(image, "sh", "-c", "cat /opt/from-the-archive /opt/thing/*")
    assert files == "here\na tool\nsome words\n"
    program = "import from_a_folder; print(from_a_folder.said)"
    assert inside(image, "python3", "-c", program) == "from a folder\n"


def test_the_image_names_upstream_and_no_mirror(site: Site, image: Path) -> None:
    sources = inside(image, "sh", "-c", "cat /etc/apt/sources.list /etc/apt/sources.list.d/*")
    assert ARCHIVE in sources
    assert f"{AMD}rocm/apt/6.4.4 bookworm main" in sources
    places = f"'{site.archive.root}' -e '{site.work}' -e {site.registry}"
    grep = f"grep -rlI -e {places} /etc /opt /var/lib/dpkg || true"
    assert inside(image, "sh", "-c", grep) == ""


def test_a_lock_holds_what_amds_repositories_have_with_all_that_it_needs(
    lock: str, site: Site
) -> None:
    sha256 = "--hash=sha256:[0-9a-f]{64}"
    for name in ("rocm-dev", "rocm-libs", "libdrm-amdgpu-dev"):
        assert re.search(rf"- apt: {name}\n +pin: {name}=6\.4\.4-129 {sha256}\n", lock), lock
    assert re.search(rf"- apt: rccl\n +dependency: true\n +pin: rccl=6\.4\.4-129 {sha256}\n", lock)
    key = digest(site.archive.root / "amd/rocm/rocm.gpg.key")
    assert re.search(rf"- url: \S+\n +file: rocm\.gpg\.key\n +pin: \"?{key}", lock)
    assert re.search(r"- image: \S+\n +pin: docker.io/library/stand-in-base@sha256:", lock)
    assert "- apt: from-the-archive\n" in lock
    assert "from-a-folder==1.0 --hash=sha256:" in lock
    assert "unpinned: " not in lock


def test_by_a_lock_nothing_is_taken_that_came_since(
    site: Site, image: Path, tmp_path: Path
) -> None:
    held = tmp_path / "held.sif"
    site.lumicontainer("build", "--locked", "--no-verify", "--output", held)
    for path, build in ((image, 130), (held, 129)):
        versions = installed(path)
        for name in ("rocm-dev", "rocm-libs", "rccl", "libdrm-amdgpu-dev"):
            assert versions[name] == f"6.4.4-{build}"


def test_a_base_that_the_registry_does_not_have_any_more_ends_the_build(
    site: Site, lock: str, tmp_path: Path
) -> None:
    images, image = site.work / "registry/images/docker", tmp_path / "held.sif"
    images.rename(images.with_name("gone"))
    words = ("build", "--locked", "--rebuild", "--output", image)
    site.lumicontainer(*words, code=DOWNLOAD_FAILED)
    images.with_name("gone").rename(images)
    assert not image.exists()
