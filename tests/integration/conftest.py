"""Real images, built once in a test run and shared; a missing engine is a failure, never a skip."""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cache.objects import object_name
from lumicontainer.constants import HOME
from lumicontainer.engines import find_engine
from lumicontainer.host.site import DEBIAN_KEYRING, read_site
from lumicontainer.image.sif import root as root_of
from lumicontainer.system.files.temporary import temporary_root
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.user_namespaces import namespace_command

from ..conftest import CHECK, ROOT, STRANGE, spread
from ..faults.real import kept
from ..programs import run
from .people import ordinary

ENGINE = shutil.which("apptainer") or "singularity"
"""Apptainer, or SingularityCE, which has no command `apptainer`."""

PLATFORMS = {"zstd": "workstation", "gzip": "gzip"}
"""A platform for each compression of images; the second is one of the recipe of nasty layers."""
COMPRESSIONS = ("zstd", "gzip") if find_engine().compression == "zstd" else ("gzip",)
"""The compressions that this host's engine reads, the default first."""

STRANGE_LINES = {name: value for name, value in STRANGE.items() if not {*"\r\n"} & {*value}}
"""Values that a Dockerfile can hold too, and that reach Docker's client as text."""

SMALL = {
    "small.yaml": (
        "summary: a small image\nbase: tiny\nlayers:\n"
        '  - greet: {greeting: "it\'s $(id) `id` %post {{ x }}"}\n'
    ),
    "layers/tiny/layer.yaml": (
        "summary: Debian with Python\nbootstrap:\n"
        "  cpu: {agent: debootstrap, release: bookworm, docker_image: 'debian:bookworm',"
        " include: [python3]}\n"
        f"environment: {json.dumps(STRANGE_LINES)}\n"
    ),
    "layers/greet/layer.yaml": (
        "summary: says hello\nparameters:\n  greeting: {type: string, default: hello}\n"
        "environment: {GREETING_STYLE: plain}\npath: [/opt/greet/bin]\n"
    ),
    "layers/greet/install.sh": (
        "set -euo pipefail\nmkdir -p /opt/greet/bin\n"
        "printf '%s' \"$greeting\" >/opt/greet/greeting\n"
        'cat data.bin >/opt/greet/data\nenv >"$HOME/environment"\n'
    ),
    "layers/greet/checks/greeting.sh": f"{CHECK}test -s /opt/greet/greeting\n",
}
BASE = "lumicontainer-test-base"
"""An image of Debian, from which images are built in the Docker engine of the tests."""
Docker = Callable[..., subprocess.CompletedProcess[str]]
NewCache = Callable[[Path], dict[str, str]]

DATA = b"\x00\xff%post\n{{ word }}\nbootstrap: x"


@pytest.fixture(scope="session", autouse=True)
def _spread_builds() -> None:
    spread(temporary_root())


def lumicontainer(*words: object, code: int | None = None, **settings: Any):
    """Run the command line of this checkout; where ``code`` is given, require that exit code."""
    done = run([sys.executable, "-m", "lumicontainer", *words], **settings)
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done


def check_output(*command: object, **settings: Any) -> str:
    """Return what a command prints, which must succeed."""
    done = run(command, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def inside(image: Path, *command: object, options: Sequence[object] = (), **settings: Any) -> str:
    """Return what a command prints in an image that the engine alone starts."""
    start = (ENGINE, "--silent", "exec", "--userns", *options)
    return check_output(*start, image, *command, **settings)


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pasted(command: str, *, cwd: Path | None = None, env: dict[str, str] | None = None):
    """Run a command that was printed, as who pastes it into a shell that has lumicontainer."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return run(["bash", "-c", command], cwd=cwd, env={"PATH": path, **(env or {})})


LIMIT = "300s"
"""Ends a run whose ranks wait for each other; a run takes half a minute."""


def srun(
    cluster: dict[str, str], *command: object, nodes: int = 2, tasks: int = 4, mpi: str = "none"
):
    """Run a command as ``tasks`` tasks of a step, as many on each node."""
    words = ["timeout", LIMIT, "srun", f"--nodes={nodes}", f"--ntasks={tasks}", f"--mpi={mpi}"]
    words += [f"--ntasks-per-node={tasks // nodes}"]
    return run([*words, *command], cwd=ROOT, env=cluster)


TRAINING = ("pytorch/training", "deepspeed/training", "horovod/training")
"""The checks of the first recipe that need more than one rank."""


def checks_of(image: Path) -> set[str]:
    """Return the names of all checks of an image, of every level."""
    return {row["name"] for row in json.loads(inside(image, "cat", f"{HOME}/checks.json"))}


def write_files(folder: Path, files: dict[str, str]) -> Path:
    """Write texts by their names into ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def write_small(folder: Path, changes: dict[str, str] | None = None) -> Path:
    """Write the recipe ``small`` with its layers into ``folder``."""
    write_files(folder, {**SMALL, **(changes or {})})
    (folder / "layers/greet/data.bin").write_bytes(DATA)
    return folder


TREES = Path(__file__).with_name("trees.py")
NASTY = Path(__file__).with_name("nasty")
"""A recipe whose layers do to each other what a file system allows, on the base of ``small``."""


def in_namespace(*command: object) -> str:
    """Run a command as root of a namespace that has the ids of an image's files."""
    return check_output(*namespace_command(), *command)


def unpacked(image: Path, root: Path) -> Path:
    """Unpack the file system of an image into the folder ``root``."""
    parts = [image, root_of(image).offset]
    in_namespace(sys.executable, TREES, "unpack", root, *parts)
    return root


def described(root: Path) -> dict[str, list[Any]]:
    """Return a row for each path of a tree, with all that a program could see of it but times.

    The notes of the engines are left out: they name the way in which an image was made.
    """
    text = in_namespace(sys.executable, TREES, "describe", root, ".singularity.d")
    return dict(json.loads(text))


def strange_values(command: Sequence[object], env: dict[str, str] | None = None) -> dict[str, str]:
    """Return those of ``STRANGE`` that ``env -0`` prints behind a command, byte for byte."""
    words = [*map(str, command), "env", "-0"]
    done = subprocess.run(words, env={**os.environ, **(env or {})}, capture_output=True, check=True)
    rows = (row.partition("=") for row in done.stdout.decode().split("\0"))
    return {name: value for name, _, value in rows if name in STRANGE}


def events(stderr: str, *kinds: str) -> list[dict[str, Any]]:
    """Return the events of the given kinds of a build with ``--progress json``."""
    messages = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
    return [event for event in messages if event["event"] in kinds]


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a test its folder, and remove it while the next test runs: the disk takes seconds."""
    failed = request.session.testsfailed
    yield tmp_path
    if request.session.testsfailed == failed:
        gone = tempfile.mkdtemp(prefix=".", dir=tmp_path.parent)
        subprocess.Popen(["rm", "-rf", "--one-file-system", tmp_path.rename(f"{gone}/x"), gone])


@pytest.fixture(scope="session")
def base_object(small: Path, recipes: Path) -> Path:
    """Return the object of the cache that holds the base of ``small``."""
    words = ("build", "small", "--recipes", recipes, "--dry-run", "--json")
    key = json.loads(lumicontainer(*words, cwd=small.parent).stdout)["base_key"]
    return cache_root() / "objects" / object_name(key, "")


@pytest.fixture(scope="session")
def new_cache(base_object: Path) -> NewCache:
    """Make a cache with nothing but the base, and return the environment that names it."""

    def make(folder: Path) -> dict[str, str]:
        (folder / "objects").mkdir(parents=True)
        folder.chmod(0o700)
        shutil.copytree(base_object, folder / "objects" / base_object.name)
        return {"LUMICONTAINER_CACHE": str(folder)}

    return make


@pytest.fixture(scope="session")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a user's own recipes folder with the recipe ``small``."""
    return write_small(tmp_path_factory.mktemp("recipes"))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, recipes: Path) -> Path:
    """Build the recipe ``small`` once."""
    folder = tmp_path_factory.mktemp("small")
    done = lumicontainer("build", "small", "--recipes", recipes, cwd=folder, code=0)
    assert done.stdout == f"{folder / 'small.sif'}\n"
    return folder / "small.sif"


@pytest.fixture(scope="session")
def proof_recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a user's own recipes folder with the recipe ``proof``."""
    from .proof import write_proof  # noqa: PLC0415 - it imports this module

    return write_proof(tmp_path_factory.mktemp("recipes"))


@pytest.fixture(scope="session")
def proof(tmp_path_factory: pytest.TempPathFactory, proof_recipes: Path) -> Path:
    """Build the recipe ``proof`` once."""
    path = tmp_path_factory.mktemp("proof") / "proof.sif"
    lumicontainer("build", "proof", "--recipes", proof_recipes, "--output", path, code=0)
    return path


@pytest.fixture(scope="session")
def tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the recipe tensorflow-horovod once."""
    path = tmp_path_factory.mktemp("tensorflow") / "tensorflow-horovod.sif"
    lumicontainer("build", "tensorflow-horovod", "--output", path, "-q", code=0)
    return path


@pytest.fixture(scope="session")
def image() -> Path:
    """Return the image of the first recipe, built where it is not there or not up to date."""
    path = ROOT / "pytorch-deepspeed.sif"
    lumicontainer("build", "pytorch-deepspeed", "--output", path, code=0)
    return path


@pytest.fixture(scope="session")
def files(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with the files of that image, for programs that start from it.

    From an image that is mounted by FUSE, each start reads all of PyTorch. From a folder, programs
    take half of the time or less.
    """
    yield from files_of(image, tmp_path_factory)


def files_of(image: Path, folders: pytest.TempPathFactory) -> Iterator[Path]:
    """Unpack the image of the first recipe once for all processes; the last one removes it."""
    place = shared_folder(folders)
    root = place / "files"
    with (place / "files.users").open("w") as users, (place / "files.lock").open("w") as lock:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            unpacked(image, root)
        fcntl.flock(lock, fcntl.LOCK_UN)
        yield root
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            in_namespace("rm", "-rf", root)


def shared_folder(folders: pytest.TempPathFactory) -> Path:
    """Return the folder of all processes of this test run; their own folders are side by side."""
    own = folders.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture
def cluster(running_cluster: dict[str, str]) -> Iterator[dict[str, str]]:
    """Return the environment in which Slurm's commands find the cluster; one test has it at a time.

    Jobs would wait for each other's processors.
    """
    with alone():
        yield running_cluster


@contextmanager
def alone(digit: str = "0") -> Iterator[None]:
    """Wait until no other test on this machine has a cluster, and keep the others waiting.

    Who waits has the turn meanwhile, so that a worker with many such tests lets others in between.
    """
    with socket.socket(socket.AF_UNIX) as lock:
        with socket.socket(socket.AF_UNIX) as turn:
            await_name(turn, f"\0lumicontainer-turn-{digit}")
            await_name(lock, f"\0lumicontainer-cluster-{digit}")
        yield


def await_name(server: socket.socket, name: str) -> None:
    """Take a name of the kernel, which ends with its process, once no other process has it."""
    while not has_bound(server, name):
        time.sleep(0.1)


def has_bound(server: socket.socket, name: str) -> bool:
    """Return whether no other process has that name of the kernel."""
    try:
        server.bind(name)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


@pytest.fixture(scope="session")
def running_cluster() -> dict[str, str]:
    """Start the cluster where it is not running; return the environment that names it."""
    with alone():
        names = started("cluster")
    # What a site sets in the engine's configuration: containers start in a user namespace.
    return {**names, "APPTAINER_USERNS": "1", "SINGULARITY_USERNS": "1"}


def started(service: str) -> dict[str, str]:
    """Start a service of the tests where it is not running; return the variables that name it."""
    script = check_output(ROOT / "tests" / service / "start.sh")
    return dict(re.findall(r"(?m)^export (\w+)=(.+)$", script))


@pytest.fixture(scope="session")
def clients() -> Path:
    """Return the folder with the programs of a Jupyter client and of MPICH."""
    return Path(check_output(ROOT / "tests/clients.sh").strip()) / "bin"


@pytest.fixture(scope="session")
def docker_host() -> dict[str, str]:
    """Start the Docker engine where it is not running; return the environment that names it."""
    return started("docker")


@pytest.fixture(scope="session")
def docker(docker_host: dict[str, str]) -> Docker:
    """Return the client of an engine into which the base image was put, so that none is pulled."""
    # Debian's engine comes without buildx, which later clients want for BuildKit.
    env = {**docker_host, "DOCKER_BUILDKIT": "0"}

    def client(*words: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return run(["docker", *words], env=env, stdin=stdin)

    if client("image", "inspect", BASE).returncode != 0:
        assert client("import", debian("docker-bookworm"), BASE).returncode == 0
    return client


def debian(name: str, *more: str) -> Path:
    """Return an archive of Debian's files, made once under a name, with more options."""
    options = ("--variant=minbase", f"--keyring={DEBIAN_KEYRING}", *more, "bookworm")

    def bootstrap(folder: Path) -> None:
        check_output("mmdebstrap", *options, folder / "base.tar", read_site("bookworm").mirror)

    return kept(name, bootstrap) / "base.tar"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    check_output(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT)
    return next(folder.glob("lumicontainer-*.whl"))


def install(wheel: Path, user: list[object], folder: Path) -> Path:
    """Install the wheel into a virtual environment that a user makes; return the program."""
    check_output(*user, "python3", "-m", "venv", "--without-pip", folder)
    # This pip, because the user's Python may have none of its own.
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python")
    check_output(*pip, "install", "--quiet", wheel)
    return folder / "bin/lumicontainer"


@pytest.fixture(scope="module")
def ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[object]]:
    """Return the start of a command that runs as an ordinary user, in a folder of that user's."""
    with ordinary(tmp_path_factory.mktemp("user")) as start:
        yield start


@pytest.fixture(scope="module")
def home(ordinary_user: list[object]) -> Path:
    return Path(check_output(*ordinary_user, "pwd").strip())


@pytest.fixture(scope="module")
def program(ordinary_user: list[object], home: Path, wheel: Path) -> list[object]:
    """Return the command of the wheel, installed in a virtual environment of the user's own."""
    return [*ordinary_user, install(wheel, ordinary_user, home / "lumicontainer-venv")]
