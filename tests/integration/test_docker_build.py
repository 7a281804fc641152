"""A real Docker engine runs the steps of a build, and makes the same layers as namespaces."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lumicontainer.cache.objects import INDEX, SUMS, Entry
from lumicontainer.cache.store import Cache
from lumicontainer.host.docker import base as docker_base
from lumicontainer.host.docker import container
from lumicontainer.host.docker.container import invocation
from lumicontainer.host.docker.daemon import LABEL
from lumicontainer.image import variables
from lumicontainer.sandbox.runtimes import docker as runtimes
from lumicontainer.sandbox.tree.index import read_index
from lumicontainer.system.process import module_command

from .conftest import BASE, SMALL, Docker, check_output, inside, lumicontainer, run, write_small
from .processes import left_in_engine, started, until

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
"""Files that Apptainer adds to a base; one by Docker has only what engines read."""
WAY = """
import contextlib, socket, sys, threading
from pathlib import Path

_, way, real, *last = sys.argv

def copy(source, target):
    is_last, size = False, 0
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            is_last = is_last or any(each.encode() in data for each in last)
            size += len(data) * is_last
            if size > 1 << 20:
                Path(f"{way}.full").touch()
                threading.Event().wait()
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

with socket.socket(socket.AF_UNIX) as server:
    server.bind(way)
    server.listen()
    while True:
        near, far = server.accept()[0], socket.socket(socket.AF_UNIX)
        far.connect(real)
        for pair in ((near, far), (far, near)):
            threading.Thread(target=copy, args=pair, daemon=True).start()
"""
"""A program that forwards what comes to a socket to another one, but for the last word no more
than 1 MiB."""
QUOTED = '{"a": "$HOME"}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, docker_host: dict[str, str]) -> Iterator[Path]:
    """Return a folder with the recipe; name the engine, and a separate cache."""
    folder = tmp_path_factory.mktemp("docker")
    files = {"layers/tiny/layer.yaml": TINY, "layers/greet/layer.yaml": GREET}
    write_small(folder / "recipes", {**files, "layers/greet/install.sh": INSTALL})
    (folder / "token").write_text("known-to-nobody\n")
    places = {"LUMICONTAINER_CACHE": str(folder / "cache"), "LUMICONTAINER_TMPDIR": str(folder)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**docker_host, **places}.items():
            patch.setenv(name, value)
        yield folder


PROGRAM = (sys.executable, "-m", "lumicontainer")
BUILD = ("build", "small", "--recipes", "recipes", "--secret", "id=token,src=token")
BY_DOCKER = ("--runtime", "docker", "-o", "docker.sif")


def build(folder: Path, *options: object, code: int = 0, **variables: str):
    words = (*BUILD, "--progress", "plain", *options)
    return lumicontainer(*words, cwd=folder, env=variables, code=code)


@pytest.fixture(scope="module")
def built(folder: Path, docker: Docker):
    """Build the recipe by Docker, from nothing."""
    return build(folder, *BY_DOCKER)


def nothing_is_left(docker: Docker) -> bool:
    """Return whether the engine loses what builds put into it, within two minutes."""
    return until(lambda: not left_in_engine(docker), 120)


def layers_of(cache: Path) -> dict[str, Entry]:
    return {each.step: each for each in Cache(cache).entries() if each.kind == "layer"}


def sums_of(cache: Path) -> dict[str, list[str]]:
    """Return the digests of the files of each layer in a cache, by its step and key."""
    layers = layers_of(cache).values()
    return {each.name: (each.folder / SUMS).read_text().splitlines()[1:] for each in layers}


def test_the_layers_are_those_that_namespaces_make(folder: Path, built) -> None:
    base, cache = layers_of(folder / "cache")["base"], folder / "namespaces"
    shutil.copytree(base.folder, cache / "objects" / base.name)
    cache.chmod(0o700)
    words = ("--runtime", "namespaces", "--no-verify", "-o", "namespaces.sif")
    build(folder, *words, LUMICONTAINER_CACHE=str(cache))
    assert sums_of(folder / "cache") == sums_of(cache)


def test_the_base_is_the_one_that_an_engine_makes(folder: Path, built, base_object: Path) -> None:
    """The packages may be from another day, so only what two bases share is compared."""
    base = layers_of(folder / "cache")["base"]
    assert base.name == base_object.name
    one, other = read_index(base.folder / INDEX), read_index(base_object / INDEX)
    assert all(OF_THE_ENGINE.match(path) for path in one.keys() ^ other.keys())
    shared = [path for path in one.keys() & other.keys() if not OF_THE_ENGINE.match(path)]
    assert len(shared) > 5000
    assert {path: one[path][:4] for path in shared} == {path: other[path][:4] for path in shared}


def test_an_image_that_only_the_daemon_has_is_unpacked_as_one_of_a_registry(
    folder: Path, docker: Docker, tmp_path: Path
) -> None:
    name, tree = f"{BASE}-variables", tmp_path / "tree"
    made = docker("create", BASE, "true").stdout.strip()
    try:
        setting = f"ENV QUOTED={shlex.quote(QUOTED)}"
        assert docker("commit", "--change", setting, made, name).returncode == 0
        spec = docker_base.BaseSpec(image=name, tree=str(tree), folder=str(tmp_path))
        done = run(invocation(docker_base.__name__, spec))
        assert done.returncode == 0, done.stderr
        assert f"{name}: using the one that the daemon has" in done.stderr
    finally:
        docker("rm", made)
        docker("image", "rm", name)
    unpack_image = "lumicontainer.sandbox.tree.foreign.unpack_image"
    check_output(*module_command(unpack_image, str(tmp_path), str(tree), str(tmp_path / "owners")))
    assert (tree / variables.PLACE).read_text() == variables.script([f"QUOTED={QUOTED}"])
    assert (tree / "etc/hostname").read_text() == ""
    assert not (tree / ".dockerenv").exists()


def test_the_engine_runs_the_image(folder: Path, built) -> None:
    script = 'echo "$GREETING_STYLE $PATH $LD_LIBRARY_PATH"; cat /link/file'
    env = {"SINGULARITYENV_PREPEND_PATH": "/first"}
    first, *rest = inside(folder / "docker.sif", "sh", "-c", script, env=env).splitlines()
    assert first.startswith("plain /first:/opt/greet/bin:/usr/local/sbin:")
    assert first.endswith(" /.singularity.d/libs")
    assert rest == ["x"]


def test_a_build_says_which_checks_docker_cannot_run_and_leaves_nothing(
    built, docker: Docker
) -> None:
    assert "not checked: the start modes of Apptainer" in built.stderr
    assert nothing_is_left(docker)


def test_an_image_that_is_left_in_docker_passes_the_same_checks(
    folder: Path, built, docker: Docker
) -> None:
    name = "lumicontainer-test-left:1"
    done = build(folder, "--output", f"docker:{name}")
    assert done.stdout == f"docker:{name}\n"
    try:
        start = ("run", "--rm", "--network=host", "--tmpfs=/tmp", "--user=12345:12345", name)
        script = 'ls /usr/share/doc/bash/copyright; echo "$GREETING_STYLE" in "$(cat /link/file)"'
        assert docker(*start, "--", "sh", "-c", script).stdout == "plain in x\n"
        checked = docker(*start, "--", "lumi-verify")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "greet/greeting" in checked.stdout + checked.stderr
        again = build(folder, "--output", f"docker:{name}")
        assert f"{name} is up to date\n" in again.stderr
    finally:
        docker("image", "rm", name)
    assert nothing_is_left(docker)


@pytest.mark.parametrize("ends", ["build", "daemon"])
def test_an_old_image_keeps_its_name_when_the_new_one_is_loaded_in_part(
    ends: str, folder: Path, built, docker: Docker, docker_host: dict[str, str], tmp_path: Path
) -> None:
    name, way = f"lumicontainer-test-part-{ends}", tmp_path / "docker.sock"
    real = docker_host["DOCKER_HOST"].removeprefix("unix://")
    old = docker("import", "-", f"{name}:1", stdin="").stdout
    words = [*PROGRAM, *BUILD, "--output", f"docker:{name}:1", "--no-verify"]
    env = {"DOCKER_HOST": f"unix://{way}"}
    with (
        started([sys.executable, "-c", WAY, way, real, f"repo={name}"]) as forwarder,
        started(words, cwd=folder, env=env) as child,
    ):
        assert until(Path(f"{way}.full").exists, 300)
        assert list(builds_of(folder).glob("*/image+-*"))
        (child if ends == "build" else forwarder).kill()
        _, printed = child.communicate(timeout=300)
    try:
        assert child.returncode == (-signal.SIGKILL if ends == "build" else 3), printed
        assert docker("images", "--no-trunc", "--quiet", name).stdout == old
        assert nothing_is_left(docker)
    finally:
        docker("image", "rm", f"{name}:1")


def test_a_failed_step_is_kept_for_debug(folder: Path, built, docker: Docker) -> None:
    script = folder / "recipes/layers/greet/install.sh"
    script.write_text("touch /was-here\necho a last word\nfalse\n")
    assert "a last word\n" in build(folder, *BY_DOCKER, code=5).stderr
    typed = 'ls -d /was-here\necho "$greeting" in "$PWD"\n'
    seen = run([*PROGRAM, "debug", "small"], stdin=typed)
    assert "/was-here\n" in seen.stdout
    assert "{{ x }} in /opt/lumicontainer/.stage/layer\n" in seen.stdout
    assert nothing_is_left(docker)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_an_interrupted_build_leaves_nothing_in_the_engine(
    number: int, folder: Path, built, docker: Docker
) -> None:
    waits = let_step_wait(folder)
    words = [*PROGRAM, *BUILD, "--runtime", "docker", "-o", "none.sif"]
    child = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE)
    try:
        assert until(waits, 300)
        child.send_signal(number)
        assert child.wait(timeout=300) == (130 if number == signal.SIGINT else -number)
    finally:
        child.kill()
        child.communicate()
    assert nothing_is_left(docker)
    assert not (folder / "none.sif").exists()


def test_a_daemon_that_ends_is_named_and_the_next_build_removes_what_it_left(
    folder: Path, built, docker: Docker, docker_host: dict[str, str], tmp_path: Path
) -> None:
    """A daemon that ends is imitated by a way to it that ends: its containers go on, too."""
    waits = let_step_wait(folder)
    way, real = tmp_path / "docker.sock", docker_host["DOCKER_HOST"].removeprefix("unix://")
    runs = ("ps", "--quiet", "--filter", f"label={LABEL}")
    with (
        started([sys.executable, "-c", WAY, way, real]) as forwarder,
        started(
            [*PROGRAM, *BUILD, "--runtime", "docker", "-o", "none.sif"],
            cwd=folder,
            env={"DOCKER_HOST": f"unix://{way}"},
        ) as child,
    ):
        assert until(waits, 300)
        forwarder.kill()
        _, printed = child.communicate(timeout=300)
    assert child.returncode == 3, printed
    said = f"error: the Docker daemon ended while the build used it\n  where: unix://{way}\n"
    assert said in printed
    assert docker(*runs).stdout
    runtimes.Docker().require_host()
    assert nothing_is_left(docker)


@pytest.mark.usefixtures("folder", "docker")
def test_a_program_that_is_root_reaches_no_shared_memory_of_this_host() -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        show = ["sh", "-c", "ls /dev/shm; grep NoNewPrivs /proc/self/status"]
        spec = container.Spec(image=BASE, environment={})
        of_root = check_output(*container.command(spec, show))
        of_user = check_output(*container.command(spec._replace(user="12345:12345"), show))
        name = Path(file.name).name
    assert name not in of_root
    assert name in of_user
    assert "NoNewPrivs:\t1" in of_user


def test_a_build_removes_what_a_helper_that_was_killed_left_in_the_engine(
    folder: Path, built, docker: Docker
) -> None:
    waits = let_step_wait(folder)
    words = [*PROGRAM, *BUILD, "--runtime", "docker", "-o", "none.sif"]
    with started(words, cwd=folder) as child:
        assert until(waits, 300)
        for pid in helpers_of(folder):
            os.kill(pid, signal.SIGKILL)
        _, printed = child.communicate(timeout=300)
    assert child.returncode == 5, printed
    assert left_in_engine(docker) == []


def helpers_of(folder: Path) -> list[int]:
    """Return the programs that ask the engine for a container of a build."""
    parts = (b"python", f"\0{container.__name__}\0".encode(), os.fsencode(folder))
    processes = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            program = command.partition(b"\0")[0]
            if parts[0] in program and all(part in command for part in parts):
                processes.append(int(entry.name))
    return processes


def builds_of(folder: Path) -> Path:
    """Return the folder of builds; root removes what is left, in Docker's only."""
    return folder / f"lumicontainer-{os.getuid()}"


def let_step_wait(folder: Path) -> Callable[[], bool]:
    """Let the step of the recipe wait; return a question: whether it does."""
    word = uuid.uuid4().hex
    (folder / "recipes/layers/greet/install.sh").write_text(f"echo {word}\nsleep 600\n")

    def waits() -> bool:
        for each in builds_of(folder).glob("small.docker-*/logs/greet.log"):
            with suppress(OSError):  # The build removes what an earlier one left.
                if word in each.read_text():
                    return True
        return False

    return waits


def test_a_daemon_that_does_not_answer_is_named(folder: Path, tmp_path: Path) -> None:
    socket = f"unix://{tmp_path}/docker.sock"
    done = build(folder, "--runtime", "docker", DOCKER_HOST=socket, code=3)
    assert f"error: the Docker daemon does not answer\n  where: {socket}\n" in done.stderr
    assert "hint: sudo systemctl start docker" in done.stderr


def test_a_daemon_without_the_files_of_this_host_is_refused(folder: Path, tmp_path: Path) -> None:
    """A daemon on another host is imitated by a folder that this host's daemon does not see."""
    unseen = 'mount -t tmpfs -o mode=0700 none "$0" && LUMICONTAINER_TMPDIR=$0 exec "$@"'
    start = ["env", "-C", folder, "unshare", "--map-root-user", "--mount", "sh", "-c", unseen]
    done = run([*start, tmp_path, *PROGRAM, *BUILD, "--runtime", "docker"])
    assert done.returncode == 3
    assert "error: the Docker daemon does not have the files of this host\n" in done.stderr
    assert "hint: set DOCKER_HOST to a daemon of this host" in done.stderr
