"""Secrets of a user are in nothing that commands print, write or keep, whatever they are for."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from ..integration.conftest import (
    Docker,
    NewCache,
    base_object,
    check_output,
    docker,
    docker_host,
    new_cache,
    recipes,
    small,
    write_small,
)
from ..integration.people import let_in
from ..programs import run
from ..unit.host.test_fetch import UPSTREAM, Upstream
from . import hostile
from .guarded import Guarded, basic

__all__ = ["base_object", "docker", "docker_host", "new_cache", "recipes", "small"]

KINDS = (
    *("index", "mirror", "uv", "netrc", "hugging", "wandb", "amazon", "github"),
    *("proxy", "secret", "docker", "credential"),
)
COMMON = "planted-canary-"
CANARIES = {kind: f"{COMMON}{hashlib.sha256(kind.encode()).hexdigest()[:16]}" for kind in KINDS}
"""A secret of each kind. Nothing that is searched contains one by chance."""
HELPER = "!f() {{ echo username=me; echo password={}; }}; f"
LAYER = (
    "summary: reads what it may\n"
    "parameters:\n  greeting: {type: string, default: hello}\n"
    "secrets: [token]\n"
)
INSTALL = """\
set -euo pipefail
mkdir /opt/greet
printf '%s' "$greeting" >/opt/greet/greeting
sha256sum <"$secrets/token" >/opt/greet/digest
echo "the token is $(cat "$secrets/token")"
"""
PINNED = {
    "pinned.yaml": "summary: of pins\nbase: pins\nlayers: [one]\n",
    "layers/pins/layer.yaml": (
        f"summary: x\nbootstrap: {{cpu: {{agent: docker, docker_image: 'x@sha256:{'0' * 64}'}}}}\n"
        'provides: {python: "3.11"}\n'
    ),
    "layers/one/layer.yaml": "summary: x\npackages: {python: [one==1.0]}\n",
}
PACKED = {
    "packed.yaml": "summary: packages of each kind\nbase: tiny\nlayers: [venv, packed, greet]\n",
    "layers/venv/layer.yaml": (
        "summary: installs packages\npackages: {apt: [python3-venv]}\npath: [/opt/venv/bin]\n"
    ),
    "layers/venv/install.sh": "set -euo pipefail\npython3 -m venv /opt/venv\n",
    "layers/packed/layer.yaml": (
        "summary: packages of both kinds\nrequires: [venv]\n"
        "packages: {apt: [hello], python: [one==1.0]}\n"
    ),
}
SOURCE = {
    "pyproject.toml": f'{hostile.PROJECT}[project]\nname = "evil"\nversion = "1.0"\n',
    "backend.py": hostile.BACKEND.format(
        attack="import os; print(dict(os.environ))",
        files=hostile.wheel_files("evil", {"evil.py": ""}),
        before="pass",
        after="pass",
    ),
}
"""A package whose building prints what it sees."""
DOCKERFILE = """\
FROM debian:bookworm
RUN pip install one==1.0
"""


SQUASHFS = b"hsqs"
"""The beginning of a squashfs."""


class _Guarded(Guarded):
    """Give files to whoever knows the password of the index, or of the mirror."""

    known = tuple(basic("me", CANARIES[kind]) for kind in ("index", "mirror"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Upstream, str]]:
    """Serve files, packages and a repository; give their folder, and the address without http."""
    upstream = Upstream(tmp_path)
    folder = upstream.served / "simple/one"
    folder.mkdir(parents=True)
    hostile.write_wheel(folder, "one", {"one.py": ""})
    links = "".join(f'<a href="{each.name}">{each.name}</a>' for each in folder.iterdir())
    (folder / "index.html").write_text(links)
    tool = upstream.repository("tool", **SOURCE)
    upstream.git("update-server-info", at=tool)
    (tool / ".git").rename(upstream.served / "bare")
    serve = partial(_Guarded, directory=str(upstream.served))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield upstream, f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


PLANTED = (
    *(".config/pip", ".config/uv", ".config/lumicontainer", ".netrc", ".docker", ".gitconfig"),
    "token",
)


def plant(home: Path, address: str) -> dict[str, str]:
    """Write the files of a user who has secrets; return the environment."""
    files = {
        ".config/pip/pip.conf": (
            f"[global]\nindex-url = http://me:{CANARIES['index']}@{address}/simple\n"
        ),
        ".config/uv/uv.toml": f'[[index]]\nurl = "http://me:{CANARIES["uv"]}@{address}/simple"\n',
        ".config/lumicontainer/mirrors.yaml": (
            f"{UPSTREAM}tool: http://me:{CANARIES['mirror']}@{address}/bare\n"
        ),
        ".netrc": f"machine {address} login me password {CANARIES['netrc']}\n",
        ".docker/config.json": json.dumps(
            {"auths": {address: {"auth": _encoded(f"me:{CANARIES['docker']}")}}}
        ),
        ".gitconfig": f'[credential]\nhelper = "{HELPER.format(CANARIES["credential"])}"\n',
        "token": CANARIES["secret"],
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
    proxy = f"http://me:{CANARIES['proxy']}@127.0.0.1:9"
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "PIP_CONFIG_FILE": str(home / ".config/pip/pip.conf"),
        "HF_TOKEN": CANARIES["hugging"],
        "WANDB_API_KEY": CANARIES["wandb"],
        "AWS_SECRET_ACCESS_KEY": CANARIES["amazon"],
        "GITHUB_TOKEN": CANARIES["github"],
        **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), proxy),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def forms(canary: str) -> list[bytes]:
    """Return a secret as text, and as the middle of what base64 makes of it at each place."""
    places = (base64.b64encode(b"x" * before + canary.encode())[4:-4] for before in range(3))
    return [canary.encode(), *places]


FORMS = [(kind, form) for kind, canary in CANARIES.items() for form in forms(canary)]
COMMON_FORMS = forms(COMMON)
"""Each of FORMS contains one of them: most files are searched for these alone."""


def search(content: bytes, where: object) -> list[str]:
    """Return which secrets are in some bytes."""
    if not any(each in content for each in COMMON_FORMS):
        return []
    return [f"{kind} in {where}" for kind, form in FORMS if form in content]


def search_folder(root: Path, scratch: Path, *, but: Sequence[Path] = ()) -> list[str]:
    """Return which secrets are in a folder: in names, links and files, packed ones too."""
    leaks = []
    for path in sorted(root.rglob("*")):
        if any(path.is_relative_to(each) for each in but):
            continue
        leaks += search(os.fsencode(path.name), path)
        if path.is_symlink():
            leaks += search(os.fsencode(path.readlink()), path)
        elif path.is_file():
            content = path.read_bytes()
            leaks += search(content, path)
            if path.suffix in (".sif", ".sqsh", ".squashfs"):
                leaks += search_packed(path, content.index(SQUASHFS), scratch)
    return leaks


def search_packed(image: Path, offset: int, scratch: Path) -> list[str]:
    tree = scratch / "tree"
    # An ordinary user cannot make the devices that stand for removed files.
    words = ["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-no-exit-code"]
    place = ["-offset", str(offset), "-dest", tree]
    subprocess.run([*words, *place, image], check=True, capture_output=True)
    leaks = search_folder(tree, scratch / "deeper")
    shutil.rmtree(tree)
    return [f"{each} of {image}" for each in leaks]


class User:
    """Run commands as a user who has all the secrets, and keep what they print."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment, self.printed = folder, environment, ""
        self.command: list[object] = [sys.executable, "-m", "lumicontainer"]

    def run(self, *words: object, codes: Sequence[int] = (0,)) -> str:
        done = run([*self.command, *words], cwd=self.folder, env=self.environment)
        assert done.returncode in codes, done.stdout + done.stderr
        self.printed += done.stdout + done.stderr
        return done.stdout

    def build(self, *words: object, recipe: str = "small") -> None:
        secret = f"id=token,src={self.environment['HOME']}/token"
        options = ("--recipes", "own", "--secret", secret, "--no-verify", "-v", "--progress=plain")
        self.run("build", recipe, *options, *words)


@pytest.fixture
def user(server: tuple[Upstream, str], new_cache: NewCache, tmp_path: Path) -> User:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir(mode=0o700)
    changes = {
        "layers/greet/layer.yaml": LAYER,
        "layers/greet/install.sh": INSTALL,
        **PINNED,
        **PACKED,
    }
    write_small(work / "own", changes)
    (work / "Dockerfile").write_text(DOCKERFILE)
    home = plant(tmp_path / "home", server[1])
    places = {"LUMICONTAINER_TMPDIR": str(temporary), **new_cache(tmp_path / "cache")}
    return User(work, {**home, **places})


def test_no_command_leaves_a_secret_of_its_user(
    user: User, docker: Docker, docker_host: dict[str, str], base_object: Path, tmp_path: Path
) -> None:
    user.environment |= docker_host
    name = f"lumicontainer-test-canaries-{os.getpid()}:1"
    build(user, name)
    use(user)
    leaks = search(user.printed.encode(), "what the commands printed")
    try:
        for words in (("image", "history", "--no-trunc"), ("image", "inspect")):
            leaks += search(docker(*words, name).stdout.encode(), words)
        assert docker("save", "--output", user.folder / "saved.tar", name).returncode == 0
    finally:
        docker("image", "rm", "--force", name)
    planted = [tmp_path / "home" / each for each in PLANTED]
    base = tmp_path / "cache/objects" / base_object.name
    for each in ("work", "temporary", "cache", "home"):
        leaks += search_folder(tmp_path / each, tmp_path, but=[*planted, base])
    assert leaks == []


@contextmanager
def watched_commands() -> Iterator[list[str]]:
    """Look for secrets in the command lines of all processes in the block; yield the leaks."""
    leaks, over = list[str](), threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for each in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    leaks.extend(search((each / "cmdline").read_bytes(), "a command line"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield leaks
    finally:
        over.set()
        thread.join()


@pytest.fixture(params=["namespaces", "proot"])
def builder(request: pytest.FixtureRequest, user: User, tmp_path: Path) -> tuple[User, str]:
    """Return the user, and a runtime; PRoot is only for ordinary users."""
    if request.param == "proot":
        start = request.getfixturevalue("ordinary_user")
        program = request.getfixturevalue("program")[-1]
        user.command = [*start, "env", "-C", user.folder, f"HOME={tmp_path}/home", program]
        check_output("chown", "-R", check_output(*start, "id", "-u").strip(), tmp_path)
        let_in(tmp_path)
    return user, request.param


def test_steps_that_install_packages_leave_no_secret(
    builder: tuple[User, str], tmp_path: Path
) -> None:
    user, runtime = builder
    with watched_commands() as leaks:
        user.build("--runtime", runtime, "-o", "packed.sif", recipe="packed")
    assert "the token is" in user.printed
    leaks += search(user.printed.encode(), "what the commands printed")
    planted = [tmp_path / "home" / each for each in PLANTED]
    for each in ("work", "temporary", "cache", "home"):
        leaks += search_folder(tmp_path / each, tmp_path, but=planted)
    assert leaks == []


def test_each_form_of_a_secret_is_found(tmp_path: Path) -> None:
    for number, (_, form) in enumerate(FORMS):
        (tmp_path / str(number)).write_bytes(b"before " + form)
    assert len(search_folder(tmp_path, tmp_path)) == len(FORMS)


def build(user: User, name: str) -> None:
    """Make images in each way."""
    user.build("-o", "small.sif")
    user.build("--set", "greet.greeting=docker", "--runtime", "docker", "-o", "docker.sif")
    user.build("--set", "greet.greeting=daemon", "--output", f"docker:{name}")
    for form in ("def", "dockerfile"):
        text = user.run("render", "small", "--recipes", "own", "--format", form)
        (user.folder / form).write_text(text)
    user.run("lock", "pinned", "--recipes", "own", "-o", "pinned.lock.yaml", "-v")
    user.run("import", "Dockerfile", "--name", "imported")


def use(user: User) -> None:
    """Use an image in each way."""
    wheel = hostile.write_wheel(user.folder, "ready", {"ready.py": ""}).name
    packages = ("one==1.0", f"git+{UPSTREAM}tool", f"./{wheel}")
    user.run("extend", "small.sif", *packages, "-o", "mine.sqsh", "-v")
    user.run("extend", "small.sif", "one==1.0", "--into", "new.sif", "-v")
    user.run("job", "--with", "mine.sqsh", "small.sif", "--", "true")
    user.run("module", "small.sif", "--prefix", "modules")
    user.run("verify", "small.sif", "-k", "greeting")
    user.run("run", "--with", "mine.sqsh", "small.sif", "--", "python3", "-c", "import one")
    user.run("inspect", "small.sif", "--json")
    user.run("doctor", codes=(0, 3))
    user.run("cache", "list")
