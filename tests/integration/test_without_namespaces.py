"""Where no user namespace can be made, PRoot builds what namespaces build, from a registry."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

from lumicontainer.build.cache.store import INDEX, LAYER, Cache, object_name
from lumicontainer.build.tree.index import Index, differences, read_index
from lumicontainer.image.sif import partitions
from lumicontainer.system.files.user_cache import cache_root

from ..conftest import ROOT
from .conftest import in_namespace, lumicontainer, run
from .people import let_in
from .registries import registry
from .test_users import ordinary_user, program  # noqa: F401 - pytest finds them by name
from .test_without_internet import push

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
    for name, text in RECIPE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copy(ROOT / "tests/deny_namespaces.py", folder)
    return folder


@pytest.fixture(scope="module")
def mirror(
    small: Path, recipes: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[str]]:
    """Give the options for a registry with the base of the image ``small``."""
    work = tmp_path_factory.mktemp("registry")
    words = ("build", "small", "--recipes", recipes, "--dry-run", "--json")
    key = json.loads(lumicontainer(*words, cwd=small.parent).stdout)["base_key"]
    layer = cache_root() / "objects" / object_name(key, "") / LAYER
    script = f"unsquashfs -q -n -d {work}/tree {layer} && cd {work}/tree"
    script += f" && rm -rf {' '.join(OWN)} && tar -cf {work}/base.tar . && cd /"
    in_namespace("sh", "-c", f"{script} && rm -rf {work}/tree")
    with registry(work) as here:
        push(work / "base.tar", f"{here}/library/{IMAGE}")
        yield ["--mirror", f"docker://docker.io/=http://{here}/"]


class Denied(NamedTuple):
    """Hold how a user for whom no namespace is made runs the program, and where its cache is."""

    start: list[object]
    options: list[object]
    home: Path

    @property
    def cache(self) -> Path:
        """Return the folder of the layers."""
        return self.home / "cache-of-proot"

    def __call__(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Build the recipe, and print what its steps print."""
        return run([*self.start, "--verbose", "build", "users", *self.options, *words])

    def allowed(self) -> Denied:
        """Return the same user, for whom namespaces are made."""
        user, (_, _, command) = self.start[:-3], self.start[-3:]
        return self._replace(start=[*user, command])


@pytest.fixture(scope="module")
def denied(
    program: list[object],  # noqa: F811
    ordinary_user: list[object],  # noqa: F811
    own: Path,
    mirror: list[str],
) -> Denied:
    home = Path(run([*ordinary_user, "pwd"]).stdout.strip())
    command = Path(str(program[-1]))
    start = [*ordinary_user, "env", f"LUMICONTAINER_CACHE={home / 'cache-of-proot'}"]
    start += [command.with_name("python"), own / "deny_namespaces.py", command]
    return Denied(start, ["--recipes", own, *mirror], home)


@pytest.fixture(scope="module")
def built(denied: Denied) -> str:
    """Build by PRoot, without the checks: they refuse a file that nobody can read."""
    done = denied("--no-verify")
    assert done.returncode == 0, done.stderr
    return done.stderr


def layers(cache: Path) -> dict[str, Index]:
    """Return the indexes of the layers in a cache of one recipe, by step."""
    entries = [each for each in Cache(cache).entries() if each.kind == "layer"]
    return {each.step: read_index(each.folder / INDEX) for each in entries}


def test_the_build_says_that_it_uses_proot_and_why(built: str) -> None:
    assert "runtime: proot (namespaces: this user cannot create user namespaces here" in built


def test_each_layer_equals_the_one_of_namespaces(
    built: str, denied: Denied, own: Path, mirror: list[str], tmp_path: Path
) -> None:
    words = ("users", "--recipes", own, *mirror, "--no-verify", "--runtime", "namespaces")
    env = {"LUMICONTAINER_CACHE": str(tmp_path / "cache")}
    done = lumicontainer("build", *words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    ours, theirs = layers(denied.cache), layers(tmp_path / "cache")
    assert ours.keys() == theirs.keys() == {"base", "users", "above", "lumicontainer"}
    found = {
        f"{step}: {path}: {what}"
        for step, index in ours.items()
        for path, what in differences(theirs[step], index)
        if not any(fnmatchcase(path, form) for form in REASONS)
    }
    assert found == set()
    # What the comparison is about is there.
    row = ours["users"]["opt/owned"]
    assert row.uid and row.gid
    assert ours["users"]["opt/one"].link == ours["users"]["opt/two"].link == "opt/one"


def test_compiling_runs_under_proot_only_if_no_engine_starts(built: str, denied: Denied) -> None:
    assert "above: compile: under PRoot, in the tree: the engine starts no container" in built
    again = ("--runtime", "proot", "--no-verify", "--set", "above.word=other")
    done = denied.allowed()(*again, "--output", "other.sif")
    assert done.returncode == 0, done.stderr
    assert "above: compile: in a container of the engine, without ptrace" in done.stderr


def test_a_slurm_job_builds_by_proot(
    built: str, denied: Denied, cluster: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    job = ("--on", "standard-g", "--time", "20m", "--jobs", 2, "--output", "job.sif")
    changed = ("--runtime", "proot", "--no-verify", "--set", "above.word=third")
    done = denied.allowed()(*job, *changed)
    assert done.returncode == 0, done.stderr
    assert "the job runs on nid00500" in done.stderr
    assert "runtime: proot" in done.stderr
    words = ["unsquashfs", "-offset", partitions(denied.home / "job.sif")[0].offset, "-cat"]
    assert run([*words, denied.home / "job.sif", "opt/compiled.txt"]).stdout == "third\n"


def test_the_flat_image_has_the_owners_of_its_layers(built: str, denied: Denied) -> None:
    image = denied.home / "users.sif"
    (part,) = partitions(image)
    words = ["unsquashfs", "-offset", part.offset, "-lln", image, "opt/owned"]
    row = layers(denied.cache)["above"]["opt/owned"]
    assert f"{row.uid}/{row.gid}" in run(words).stdout


@pytest.mark.parametrize("words", [(), ("--on", "standard-g")], ids=["here", "in a job"])
def test_a_layer_that_makes_a_device_is_refused_before_the_build(
    denied: Denied, own: Path, words: tuple[str, ...], running_cluster: dict[str, str]
) -> None:
    del running_cluster
    folder = own / "layers/above"
    script = (folder / "install.sh").read_text()
    (folder / "install.sh").write_text(f"{script}mknod /opt/null c 1 3\n")
    done = denied("--output", "other.sif", *words)
    (folder / "install.sh").write_text(script)
    assert done.returncode == 2
    assert "PRoot cannot make device nodes" in done.stderr
    assert "base" not in done.stderr
    assert "submitted" not in done.stderr
