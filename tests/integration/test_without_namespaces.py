"""Without user namespaces PRoot builds what namespaces build, from a registry."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from lumicontainer.cache.objects import INDEX, LAYER
from lumicontainer.cache.store import Cache
from lumicontainer.image.sif import root
from lumicontainer.sandbox.tree.index import Index, differences, read_index

from ..conftest import ROOT
from .conftest import check_output, in_namespace, lumicontainer, run, write_files
from .people import let_in
from .registries import registry
from .test_without_internet import push

Build = Callable[..., str]
IMAGE = "stand-in-proot-base:1"
RECIPE = {
    "users.yaml": "summary: users, setuid and hard links\nbase: pulled\nlayers: [users, above]\n",
    "layers/pulled/layer.yaml": (
        "summary: Debian, from a registry\n"
        f"bootstrap:\n  cpu: {{agent: docker, docker_image: 'docker.io/library/{IMAGE}'}}\n"
        'provides: {python: "3.11"}\n'
    ),
    "layers/users/layer.yaml": (
        "summary: a user, a group, and files of theirs\n"
        "packages: {apt: [adduser, openssh-client, iputils-ping]}\n"
    ),
    "layers/users/install.sh": """\
set -euo pipefail
useradd --system --create-home --home-dir /opt/owner owner
touch /opt/owned && chown owner:_ssh /opt/owned
mkdir /opt/team && chown :_ssh /opt/team && chmod 2775 /opt/team && touch /opt/team/inherits
cp /bin/true /opt/setuid && chown owner /opt/setuid && chmod 4755 /opt/setuid
cp /bin/true /opt/cleared && chmod 4755 /opt/cleared && chown owner /opt/cleared
touch /opt/one && ln /opt/one /opt/two && chown owner /opt/two
mkdir /opt/closed && touch /opt/closed/file && chmod 000 /opt/closed/file && chmod 0500 /opt/closed
mkdir /opt/hidden && touch /opt/hidden/file && chmod 0311 /opt/hidden
ln -s nowhere /opt/link && chown -h owner /opt/link
mkfifo /opt/fifo
touch "/opt/a \\"quoted\\\\ name"
touch /opt/gone && mkdir /opt/emptied && touch /opt/emptied/file
""",
    "layers/above/layer.yaml": (
        "summary: changes what lies below\nparameters: {word: {type: string, default: one}}\n"
        "packages: {apt: [patch]}\n"
    ),
    "layers/above/compile.sh": (
        "set -euo pipefail\npatch --version\n"
        'cd "$(mktemp -d)" && echo "$word" >compiled.txt\n'
        'python3 -m zipfile -c "$wheels/compiled-1-py3-none-any.whl" compiled.txt\n'
    ),
    "layers/above/install.sh": """\
set -euo pipefail
rm /opt/gone && rm -r /opt/emptied && mkdir /opt/emptied
echo more >>/opt/owned
chmod 0644 /opt/closed/file
echo more >>/opt/hidden/file
python3 -m zipfile -e "$wheels"/*.whl /opt
stat -c '%n %s' /opt/owned >/opt/seen
""",
}
OWN = (".singularity.d*", ".exec", ".run", ".shell", ".test", "environment", "singularity")
REASONS = {
    **dict.fromkeys(OWN, "the engine's own bootstrap adds its files to a base"),
    "etc/*-": "a program copies an owner, and PRoot shows every owner as root",
}
"""Why files of a layer differ, by the form of their paths."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the recipe, and the program that denies namespaces, where every user may read."""
    folder = tmp_path_factory.mktemp("recipes")
    let_in(folder)
    shutil.copy(ROOT / "tests/deny_namespaces.py", folder)
    return write_files(folder, RECIPE)


@pytest.fixture(scope="module")
def mirror(base_object: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Give the options for a registry with the base of the image ``small``."""
    work = tmp_path_factory.mktemp("registry")
    script = f"unsquashfs -q -n -d {work}/tree {base_object / LAYER} && cd {work}/tree"
    script += f" && rm -rf {' '.join(OWN)} && tar -cf {work}/base.tar . && cd /"
    in_namespace("sh", "-c", f"{script} && rm -rf {work}/tree")
    with registry(work) as here:
        push(work / "base.tar", f"{here}/library/{IMAGE}")
        yield ["--mirror", f"docker://docker.io/=http://{here}/"]


@pytest.fixture(scope="module")
def cache(home: Path) -> Path:
    return home / "cache-of-proot"


@pytest.fixture(scope="module")
def build(
    program: list[object],
    ordinary_user: list[object],
    cache: Path,
    own: Path,
    mirror: list[str],
) -> Build:
    """Return what builds as a user for whom no namespace is made, and gives what it printed.

    The image is not checked: the checks refuse a file that nobody can read.
    """
    start, command = [*ordinary_user, "env", f"LUMICONTAINER_CACHE={cache}"], Path(str(program[-1]))
    denying = [command.with_name("python"), own / "deny_namespaces.py"]
    options = ["--verbose", "build", "users", "--recipes", own, *mirror, "--no-verify"]

    def build(*words: object, allowed: bool = False, code: int = 0) -> str:
        done = run([*start, *([] if allowed else denying), command, *options, *words])
        assert done.returncode == code, done.stderr
        return done.stderr

    return build


@pytest.fixture(scope="module")
def built(build: Build) -> str:
    return build()


def layers(cache: Path) -> dict[str, Index]:
    """Return the indexes of the layers in a cache of one recipe, by step."""
    entries = [each for each in Cache(cache).entries() if each.kind == "layer"]
    return {each.step: read_index(each.folder / INDEX) for each in entries}


def test_the_build_says_that_it_uses_proot_and_why(built: str) -> None:
    assert "runtime: proot (namespaces: this user cannot create user namespaces here" in built


def test_each_layer_equals_the_one_of_namespaces(
    built: str, cache: Path, own: Path, mirror: list[str], tmp_path: Path
) -> None:
    words = ("users", "--recipes", own, *mirror, "--no-verify", "--runtime", "namespaces")
    env = {"LUMICONTAINER_CACHE": str(tmp_path / "cache")}
    lumicontainer("build", *words, cwd=tmp_path, env=env, code=0)
    ours, theirs = layers(cache), layers(tmp_path / "cache")
    assert ours.keys() == theirs.keys() == {"base", "users", "above", "lumicontainer"}
    differing = {
        f"{step}: {path}: {what}"
        for step, index in ours.items()
        for path, what in differences(theirs[step], index)
        if not any(fnmatchcase(path, form) for form in REASONS)
    }
    assert differing == set()
    # What the comparison is about is there.
    row = ours["users"]["opt/owned"]
    assert row.uid and row.gid
    assert ours["users"]["opt/one"].link == ours["users"]["opt/two"].link == "opt/one"


def test_compiling_runs_under_proot_only_if_no_engine_starts(built: str, build: Build) -> None:
    assert "above: compile: under PRoot, in the tree: the engine starts no container" in built
    changed = ("--runtime", "proot", "--set", "above.word=other", "--output", "other.sif")
    printed = build(*changed, allowed=True)
    assert "above: compile: in a container of the engine, without ptrace" in printed


def in_image(image: Path, *words: object) -> str:
    """Return what unsquashfs prints of an image."""
    return check_output("unsquashfs", "-offset", root(image).offset, *words)


def test_a_slurm_job_builds_by_proot(
    built: str,
    build: Build,
    home: Path,
    cluster: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    image = home / "job.sif"
    job = ("--on", "standard-g", "--time", "20m", "--jobs", 2, "--output", image)
    printed = build(*job, "--runtime", "proot", "--set", "above.word=third", allowed=True)
    assert "the job runs on nid00500" in printed
    assert "runtime: proot" in printed
    assert in_image(image, "-cat", image, "opt/compiled.txt") == "third\n"


def test_the_flat_image_has_the_owners_of_its_layers(
    built: str,
    cache: Path,
    home: Path,
) -> None:
    row = layers(cache)["above"]["opt/owned"]
    listed = in_image(home / "users.sif", "-lln", home / "users.sif", "opt/owned")
    assert f"{row.uid}/{row.gid}" in listed


def test_a_layer_that_makes_a_device_is_refused_before_the_build(build: Build, own: Path) -> None:
    with (own / "layers/above/install.sh").open("a") as script:
        script.write("mknod /opt/null c 1 3\n")
    printed = build("--output", "other.sif", code=2)
    assert "PRoot cannot make device nodes" in printed
    assert "base" not in printed
