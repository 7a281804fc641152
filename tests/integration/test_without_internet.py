"""A site without the internet builds by its mirrors: each kind of source comes from this machine.

Upstream's hosts are names that do not exist, and what asks for another host meets a proxy that is
not there. The base image lies in a real registry. Apt's archives are the test's own: one stands for
the base's distribution, one for AMD's repositories, and the shipped layer rocm installs from it.
"""

import functools
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.errors import DOWNLOAD_FAILED
from lumicontainer.host.site import DEBIAN_KEYRING, read_site

from ..conftest import ROOT
from ..faults.real import kept
from ..recipes.scripts import make_wheel
from ..stand_in_archive import Package, StandInArchive, stand_in_archive
from ..stand_in_rocm import stand_in_rocm
from .conftest import lumicontainer, run
from .registries import registry
from .test_locked import git

UPSTREAM, AMD = "https://upstream.invalid/", "https://repo.radeon.com/"
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
    """Hold a site's mirrors, and recipes of what they have."""

    recipes: Path
    archive: StandInArchive
    registry: str
    images: Path
    options: tuple[str, ...]
    environment: dict[str, str]

    def lumicontainer(self, verb: str, *words: object):
        """Run a verb for the one recipe, with the site's mirrors and nothing else in reach."""
        always = ("near", "--recipes", self.recipes, "--platform", "here", *self.options)
        return lumicontainer(verb, *always, *words, env=self.environment)

    def publish_rocm(self, *builds: str) -> None:
        """Publish builds of ROCm 6.4.4 in AMD's place."""
        found = [stand_in_rocm(build=build) for build in builds]
        for folder in found[0]:
            packages = [package for each in found for package in each[folder]]
            origin = "repo.radeon.com"
            self.archive.publish(f"amd/{folder}", packages, suite="bookworm", origin=origin)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StandInArchive, str]]:
    """Give the archives, and the fingerprint of their key."""
    with stand_in_archive(tmp_path_factory.mktemp("archives")) as archive:
        fingerprint = archive.make_key()
        (archive.root / "amd/rocm").mkdir(parents=True)
        (archive.root / "amd/rocm/rocm.gpg.key").write_text(archive.key())
        package = Package("from-the-archive", {"opt/from-the-archive": "here\n"})
        archive.publish("debian", [package], suite="bookworm", origin="Debian")
        yield archive, fingerprint


@pytest.fixture(scope="module")
def base(archive: tuple[StandInArchive, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Debian as an archive of files, which knows no archive of packages but the test's."""
    path = tmp_path_factory.mktemp("base") / "base.tar"
    shutil.copy(kept("without-internet-bookworm", _bootstrap) / path.name, path)
    source = f"deb [signed-by=/etc/apt/keyrings/own.asc] {ARCHIVE} bookworm main\n"
    with tarfile.open(path, "a") as tar:
        for name, text in (("keyrings/own.asc", archive[0].key()), ("sources.list", source)):
            info = tarfile.TarInfo(f"./etc/apt/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def _bootstrap(folder: Path) -> None:
    tools = "ca-certificates,curl,git,gpg,python3-venv"
    options = ["--variant=minbase", f"--keyring={DEBIAN_KEYRING}", f"--include={tools}"]
    options.append("--customize-hook=rm -rf $1/etc/apt/sources.list $1/etc/apt/sources.list.d/*")
    mirror = read_site("bookworm").mirror
    made = run(["mmdebstrap", *options, "bookworm", folder / "base.tar", mirror])
    assert made.returncode == 0, made.stderr[-2000:]


@pytest.fixture(scope="module")
def site(
    archive: tuple[StandInArchive, str], base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Run the registry, fill it by Docker, and give the options that name all that there is."""
    work = tmp_path_factory.mktemp("site")
    served, commit = _served(work / "served")
    recipes = _recipes(work / "recipes", KEY=archive[1], COMMIT=commit)
    with registry(work / "registry") as here:
        push(base, f"{here}/{BASE}")
        mirrors = {
            "docker://docker.io/": f"http://{here}/",
            UPSTREAM: f"{served}/",
            ARCHIVE: archive[0].root / "debian",
            AMD: f"{archive[0].root / 'amd'}/",
        }
        nowhere = {f"{each}_proxy": "http://127.0.0.1:9" for each in ("http", "https", "all")}
        pip = {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "FIND_LINKS": str(served)}
        environment = {
            **nowhere,
            "no_proxy": "127.0.0.1",
            **{f"PIP_{name}": value for name, value in pip.items()},
            "LUMICONTAINER_CACHE": str(work / "cache"),
        }
        pairs = [("--mirror", f"{old}={new}") for old, new in mirrors.items()]
        options = tuple(word for pair in pairs for word in pair)
        found = Site(recipes, archive[0], here, work / "registry/images", options, environment)
        found.publish_rocm("129")
        yield found


def _served(folder: Path) -> tuple[Path, str]:
    """Make what lies upstream in a folder, and a wheel; return the folder and the commit."""
    (folder / "tool").mkdir(parents=True)
    (folder / "words.txt").write_text("some words\n")
    git(folder / "tool", "init", "--quiet")
    (folder / "tool/tool").write_text("a tool\n")
    git(folder / "tool", "add", ".")
    git(folder / "tool", "commit", "--quiet", "--message=one")
    make_wheel(folder, WHEEL, {"from_a_folder.py": "said = 'from a folder'\n"})
    return folder, git(folder / "tool", "rev-parse", "HEAD")


def _recipes(folder: Path, **words: str) -> Path:
    """Write the recipe; of the layer rocm without checks, which stand-ins fail, and its size."""
    for name, text in LAYERS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(functools.reduce(lambda t, pair: t.replace(*pair), words.items(), text))
    shutil.copytree(ROCM, folder / "layers/rocm", ignore=shutil.ignore_patterns("checks"))
    layer = folder / "layers/rocm/layer.yaml"
    layer.write_text(re.sub(r"\n +expects: .*", "", layer.read_text()))
    return folder


def push(tar: Path, image: str) -> None:
    """Give a registry an image by Docker, as whoever fills a mirror does."""
    started = run([ROOT / "tests/docker/start.sh"])
    assert started.returncode == 0, started.stderr
    env = dict(re.findall(r"(?m)^export (\w+)=(.+)$", started.stdout))
    for words in (["import", tar, image], ["push", image], ["rmi", image]):
        done = run(["docker", *words], env=env)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def image(site: Site, lock: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the recipe without its lock, once newer packages have been published."""
    site.publish_rocm("129", "130")
    path = tmp_path_factory.mktemp("image") / "near.sif"
    done = site.lumicontainer("build", "--no-verify", "--output", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def lock(site: Site) -> str:
    """Lock the recipe by the mirrors, and return the text of the lock."""
    done = site.lumicontainer("lock")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip()).read_text()


def printed(image: Path, script: str) -> str:
    """Return what a script prints in an image."""
    done = lumicontainer("run", image, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed(image: Path) -> dict[str, str]:
    """Return the versions of an image's Debian packages by name."""
    listed = json.loads(lumicontainer("inspect", image, "--packages", "--json").stdout)["system"]
    return {name.partition(":")[0]: version for name, version in listed.items()}


def test_an_image_is_built_of_nothing_but_what_this_machine_has(image: Path) -> None:
    assert printed(image, "cat /opt/from-the-archive /opt/thing/*") == "here\na tool\nsome words\n"
    assert printed(image, "python3 -c 'import from_a_folder; print(from_a_folder.said)'") == (
        "from a folder\n"
    )


def test_the_image_names_upstream_and_no_mirror(site: Site, image: Path) -> None:
    sources = printed(image, "cat /etc/apt/sources.list /etc/apt/sources.list.d/*")
    assert ARCHIVE in sources
    assert f"{AMD}rocm/apt/6.4.4 bookworm main" in sources
    there = f"'{site.archive.root}' -e '{site.recipes.parent}' -e {site.registry}"
    assert printed(image, f"grep -rlI -e {there} /etc /opt /var/lib/dpkg || true") == ""


def test_a_lock_holds_what_amds_repositories_have_with_all_that_it_needs(
    lock: str, archive: tuple[StandInArchive, str]
) -> None:
    for name in ("rocm-dev", "rocm-libs", "libdrm-amdgpu-dev"):
        assert re.search(rf"- apt: {name}\n +pin: {name}=6\.4\.4-129\n", lock), lock
    assert re.search(r"- apt: rccl\n +dependency: true\n +pin: rccl=6\.4\.4-129\n", lock)
    key = hashlib.sha256((archive[0].root / "amd/rocm/rocm.gpg.key").read_bytes()).hexdigest()
    assert re.search(rf"- url: \S+\n +file: rocm\.gpg\.key\n +pin: \"?{key}", lock)
    assert re.search(r"- image: \S+\n +pin: docker.io/library/stand-in-base@sha256:", lock)
    assert "- apt: from-the-archive\n" in lock
    assert "from-a-folder==1.0 --hash=sha256:" in lock
    assert "unpinned: " not in lock


def test_by_a_lock_nothing_is_taken_that_came_since(
    site: Site, image: Path, tmp_path: Path
) -> None:
    held = tmp_path / "held.sif"
    done = site.lumicontainer("build", "--locked", "--no-verify", "--output", held)
    assert done.returncode == 0, done.stderr
    for path, build in ((image, 130), (held, 129)):
        versions = installed(path)
        for name in ("rocm-dev", "rocm-libs", "rccl", "libdrm-amdgpu-dev"):
            assert versions[name] == f"6.4.4-{build}"


def test_a_base_that_the_registry_does_not_have_any_more_ends_the_build(
    site: Site, lock: str, tmp_path: Path
) -> None:
    shutil.move(site.images / "docker", tmp_path / "gone")
    image = tmp_path / "held.sif"
    done = site.lumicontainer("build", "--locked", "--rebuild", "--output", image)
    shutil.move(tmp_path / "gone", site.images / "docker")
    assert done.returncode == DOWNLOAD_FAILED, done.stderr
    assert not image.exists()
