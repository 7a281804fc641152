"""A real Docker engine runs the steps of a build, and its layers are those of namespaces."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lumicontainer.build.cache.store import INDEX
from lumicontainer.build.tree.index import read_index
from lumicontainer.host.docker.daemon import LABEL

from .conftest import BASE, ENGINE, SMALL, Docker, lumicontainer, run, write_small

TINY = SMALL["layers/tiny/layer.yaml"].replace("debian:bookworm", BASE)
INSTALL = (
    SMALL["layers/greet/install.sh"]
    + "mkdir /top\necho x >/top/file\nchown -R 7:8 /top\nln -s top /link\n"
    'grep -q "^known-to-nobody$" "$secrets/token"\nrm /usr/share/doc/bash/copyright\n'
)
GREET = SMALL["layers/greet/layer.yaml"] + "secrets: [token]\n"
OF_THE_ENGINE = re.compile(
    r"\.singularity\.d(/|$)|\.(exec|run|shell|test)$|environment$|singularity$"
)
"""What Apptainer adds to a base; one by Docker has only what engines read."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the recipe, and with caches of its own."""
    folder = tmp_path_factory.mktemp("docker")
    files = {"layers/tiny/layer.yaml": TINY, "layers/greet/layer.yaml": GREET}
    write_small(folder / "recipes", {**files, "layers/greet/install.sh": INSTALL})
    (folder / "token").write_text("known-to-nobody\n")
    return folder


def build(folder: Path, name: str, *options: object, **variables: str):
    """Build the recipe with the cache ``name``."""
    words = ("build", "small", "--recipes", "recipes", "--progress", "plain")
    secret = ("--secret", "id=token,src=token")
    env = {**places(folder, name), **variables}
    return lumicontainer(*words, *secret, *options, cwd=folder, env=env)


def places(folder: Path, cache: str) -> dict[str, str]:
    return {"LUMICONTAINER_CACHE": str(folder / cache), "LUMICONTAINER_TMPDIR": str(folder)}


@pytest.fixture(scope="module")
def built(folder: Path, docker: Docker, docker_host: dict[str, str]):
    """Build the recipe by Docker, from nothing."""
    done = build(folder, "docker", "--runtime", "docker", "-o", "docker.sif", **docker_host)
    assert done.returncode == 0, done.stderr
    return done


def left(docker: Docker) -> str:
    """Return the containers, images and volumes that builds left in the engine."""
    label = f"label={LABEL}"
    found = (
        docker("container", "ls", "--all", "--quiet", "--filter", label),
        docker("image", "ls", "--all", "--quiet", "--filter", label),
        docker("volume", "ls", "--quiet"),
    )
    return "".join(each.stdout for each in found)


def layers_of(cache: Path) -> dict[str, Path]:
    """Return the folders of the layers in a cache, by step and key."""
    rows = ((each, json.loads((each / "entry.json").read_text())) for each in cache.glob("o*/*"))
    return {f"{row['step']} {row['key']}": each for each, row in rows}


def test_the_layers_are_those_that_namespaces_make(folder: Path, built) -> None:
    one = layers_of(folder / "docker")
    (folder / "namespaces/objects").mkdir(parents=True)
    (folder / "namespaces").chmod(0o700)
    base = next(each for step, each in one.items() if step.startswith("base "))
    shutil.copytree(base, folder / "namespaces/objects" / base.name)
    done = build(folder, "namespaces", "--runtime", "namespaces", "--no-verify", "-o", "n.sif")
    assert done.returncode == 0, done.stderr
    other = layers_of(folder / "namespaces")
    sums = [{name: (each / "sums").read_text() for name, each in of.items()} for of in (one, other)]
    assert {name: text.splitlines()[1:] for name, text in sums[0].items()} == {
        name: text.splitlines()[1:] for name, text in sums[1].items()
    }


def test_the_base_is_the_one_that_an_engine_makes(folder: Path, built, new_cache) -> None:
    """The packages may be those of another day, so only what two bases share is compared."""
    caches = (folder / "docker", Path(new_cache(folder / "engine")["LUMICONTAINER_CACHE"]))
    bases = [{k: v for k, v in layers_of(each).items() if k.startswith("base ")} for each in caches]
    assert bases[0].keys() == bases[1].keys()
    one, other = (read_index(next(iter(each.values())) / INDEX) for each in bases)
    assert all(OF_THE_ENGINE.match(path) for path in one.keys() ^ other.keys())
    shared = [path for path in one.keys() & other.keys() if not OF_THE_ENGINE.match(path)]
    assert len(shared) > 5000
    assert {path: one[path][:4] for path in shared} == {path: other[path][:4] for path in shared}


def test_the_engine_runs_the_image(folder: Path, built) -> None:
    script = 'echo "$GREETING_STYLE $PATH $LD_LIBRARY_PATH"; cat /link/file'
    env = {"SINGULARITYENV_PREPEND_PATH": "/first"}
    seen = run([ENGINE, "exec", "--userns", folder / "docker.sif", "sh", "-c", script], env=env)
    first, *rest = seen.stdout.splitlines()
    assert first.startswith("plain /first:/opt/greet/bin:/usr/local/sbin:"), seen.stderr
    assert first.endswith(" /.singularity.d/libs")
    assert rest == ["x"]


def test_a_build_says_which_checks_docker_cannot_run(built) -> None:
    assert "not checked: the start modes of Apptainer" in built.stderr


def test_a_build_leaves_nothing_in_the_engine(built, docker: Docker) -> None:
    until(lambda: not left(docker))


def test_an_image_that_is_left_in_docker_passes_the_same_checks(
    folder: Path, built, docker: Docker, docker_host: dict[str, str]
) -> None:
    name = "lumicontainer-test-left:1"
    done = build(folder, "docker", "--output", f"docker:{name}", **docker_host)
    assert (done.returncode, done.stdout) == (0, f"docker:{name}\n"), done.stderr
    try:
        start = ("run", "--rm", "--network=host", "--tmpfs=/tmp", "--user=12345:12345", name)
        script = 'ls /usr/share/doc/bash/copyright; echo "$GREETING_STYLE" in "$(cat /link/file)"'
        assert docker(*start, "--", "sh", "-c", script).stdout == "plain in x\n"
        checked = docker(*start, "--", "lumi-verify")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "greet/greeting" in checked.stdout + checked.stderr
        again = build(folder, "docker", "--output", f"docker:{name}", **docker_host)
        assert f"{name} is up to date\n" in again.stderr
    finally:
        docker("image", "rm", name)
    until(lambda: not left(docker))


def test_a_failed_step_is_kept_for_debug(
    folder: Path, built, docker: Docker, docker_host: dict[str, str]
) -> None:
    script = folder / "recipes/layers/greet/install.sh"
    script.write_text("touch /was-here\necho a last word\nfalse\n")
    done = build(folder, "docker", "--runtime", "docker", "-o", "failed.sif", **docker_host)
    assert done.returncode == 5
    assert "a last word\n" in done.stderr
    typed = 'ls -d /was-here\necho "$greeting" in "$PWD"\n'
    words = [sys.executable, "-m", "lumicontainer", "debug", "small"]
    seen = run(words, env={**places(folder, "docker"), **docker_host}, stdin=typed)
    assert "/was-here\n" in seen.stdout
    assert "{{ x }} in /opt/lumicontainer/.stage/layer\n" in seen.stdout
    until(lambda: not left(docker))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_an_interrupted_build_leaves_nothing_in_the_engine(
    number: int, folder: Path, built, docker: Docker, docker_host: dict[str, str]
) -> None:
    (folder / "recipes/layers/greet/install.sh").write_text("echo it waits\nsleep 600\n")
    words = [sys.executable, "-m", "lumicontainer", "build", "small", "--recipes", "recipes"]
    words += ["--runtime", "docker", "-o", "none.sif", "--secret", "id=token,src=token"]
    env = {**os.environ, **docker_host, **places(folder, "docker")}
    child = subprocess.Popen(words, cwd=folder, env=env, stderr=subprocess.PIPE)
    try:
        until(lambda: docker("ps", "--quiet", "--filter", f"label={LABEL}").stdout)
        child.send_signal(number)
        assert child.wait(timeout=120) == (130 if number == signal.SIGINT else -number)
    finally:
        child.kill()
        child.communicate()
    until(lambda: not left(docker))
    assert not (folder / "none.sif").exists()


def until(holds) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_daemon_that_does_not_answer_is_named(folder: Path, tmp_path: Path) -> None:
    socket = f"unix://{tmp_path}/docker.sock"
    done = build(folder, "none", "--runtime", "docker", DOCKER_HOST=socket)
    assert done.returncode == 3
    assert f"error: the Docker daemon does not answer\n  where: {socket}\n" in done.stderr
    assert "hint: sudo systemctl start docker" in done.stderr


def test_a_daemon_without_the_files_of_this_host_is_refused(
    folder: Path, docker_host: dict[str, str], tmp_path: Path
) -> None:
    """A daemon on another host is imitated by a folder that this host's daemon does not see."""
    words = [sys.executable, "-m", "lumicontainer", "build", "small", "--recipes", "recipes"]
    words += ["--runtime", "docker", "--secret", "id=token,src=token"]
    unseen = 'mount -t tmpfs -o mode=0700 none "$0" && LUMICONTAINER_TMPDIR=$0 exec "$@"'
    start = ["env", "-C", folder, "unshare", "--map-root-user", "--mount", "sh", "-c", unseen]
    done = run([*start, tmp_path, *words], env=docker_host)
    assert done.returncode == 3
    assert "error: the Docker daemon does not have the files of this host\n" in done.stderr
    assert "hint: name a daemon of this host by DOCKER_HOST" in done.stderr
