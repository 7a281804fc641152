"""Passwords of a site's configuration and secret files are seen nowhere but where they are used."""

import base64
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from lumicontainer.core.model import GitSource, UrlSource
from lumicontainer.errors import STEP_FAILED
from lumicontainer.host.git import whole_commit
from lumicontainer.host.uv import Sources, find_uv, write_stand_in
from lumicontainer.pinning.sources import sha256_of
from lumicontainer.system.process import run_to_end

from ..cli.conftest import Run, lumicontainer
from ..conftest import CHECK, HELLO, Write
from ..integration.conftest import lumicontainer as command_line
from ..integration.conftest import recipes, small, write_small
from ..integration.test_secrets import everything
from ..unit.host.test_fetch import UPSTREAM, Upstream, upstream
from .guarded import Guarded, basic

__all__ = ["lumicontainer", "recipes", "small", "upstream"]

PASSWORD = "canary-5e3f9b1c77d2"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
AT = f"https://me:{PASSWORD}@index.invalid"
SITE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": f"{AT}/simple",
    "PIP_EXTRA_INDEX_URL": f"{AT}/more {AT}/most",
    "PIP_PROXY": f"http://me:{PASSWORD}@proxy.invalid:9",
    "PIP_FIND_LINKS": f"{AT}/links",
    "PIP_RETRIES": "0",
    "https_proxy": f"http://me:{PASSWORD}@127.0.0.1:9",
    "LUMICONTAINER_VISIBLE": "yes",
}


class _Guarded(Guarded):
    """Give files to whoever knows the password, and note whose command line shows it meanwhile."""

    known = (basic("me", PASSWORD),)
    seen: list[bytes]

    def note_request(self) -> None:
        self.seen += [line for line in _command_lines() if PASSWORD.encode() in line]


def _command_lines() -> Iterator[bytes]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (process / "cmdline").read_bytes()


@pytest.fixture
def guarded(upstream: Upstream) -> Iterator[list[bytes]]:
    """Serve what lies upstream to who knows the password; give the command lines that show it."""
    handler = type("Handler", (_Guarded,), {"seen": []})
    serve = partial(handler, directory=str(upstream.served))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        upstream.mirrors = {UPSTREAM: f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}/"}
        yield handler.seen
        server.shutdown()
        thread.join()


DIGEST = sha256(b"content").hexdigest()


@pytest.fixture
def commit(upstream: Upstream, guarded: list[bytes]) -> str:
    """Serve a file and a repository; return the repository's commit."""
    folder = upstream.repository("tool", a="first")
    upstream.git("update-server-info", at=folder)
    (folder / ".git").rename(upstream.served / "bare")
    upstream.mirrors = {f"{UPSTREAM}tool": f"{upstream.mirrors[UPSTREAM]}bare", **upstream.mirrors}
    (upstream.served / "x").write_text("content")
    return upstream.git("rev-parse", "HEAD", at=upstream.served / "bare")


def test_a_step_fetches_by_a_mirror_with_a_password_that_no_command_line_shows(
    upstream: Upstream, guarded: list[bytes], commit: str
) -> None:
    file = UrlSource(f"{UPSTREAM}x", "x", DIGEST)
    done = upstream.fetch(file, GitSource(f"{UPSTREAM}tool", commit, "tree"))
    assert done.returncode == 0, done.stderr
    assert (upstream.fetched("tree") / "a").read_text() == "first"
    assert guarded == []
    assert PASSWORD not in done.stdout + done.stderr


def test_a_lock_asks_a_mirror_with_a_password_that_no_command_line_shows(
    upstream: Upstream, guarded: list[bytes], commit: str
) -> None:
    assert sha256_of(f"{UPSTREAM}x", upstream.mirrors) == DIGEST
    assert whole_commit(f"{UPSTREAM}tool", commit, upstream.mirrors) == commit
    assert guarded == []


@pytest.mark.parametrize("kind", ["index-url", "extra-index-url", "find-links"])
def test_uv_locks_what_an_index_with_a_password_has_and_writes_none(
    upstream: Upstream, guarded: list[bytes], tmp_path: Path, kind: str
) -> None:
    folder = upstream.served / "simple/one"
    folder.mkdir(parents=True)
    write_stand_in(folder, "one", "1.0")
    links = "".join(f'<a href="{each.name}">{each.name}</a>' for each in folder.iterdir())
    (folder / "index.html").write_text(links)
    url = f"{upstream.mirrors[UPSTREAM]}simple/"
    settings = {"no-index": "1"} if kind == "find-links" else {"index-url": url}
    settings |= {kind: f"{url}one/" if kind == "find-links" else url}
    requirements, lock = tmp_path / "wanted.txt", tmp_path / "pylock.toml"
    requirements.write_text(
        "".join(f"{line}\n" for line in [*Sources(settings, "").together(), "one"])
    )
    words = ("pip", "compile", "--format", "pylock.toml", "--no-config", "--no-cache")
    run_to_end([str(find_uv()), *words, "--output-file", str(lock), str(requirements)])
    assert 'name = "one"' in lock.read_text()
    assert PASSWORD not in lock.read_text()
    assert guarded == []


def test_a_definition_names_a_mirror_without_its_password(lumicontainer: Run, write: Write) -> None:
    site = {"LUMICONTAINER_MIRROR": f"https://me:{PASSWORD}@mirror.invalid/debian"}
    done = lumicontainer("render", "hello", "--recipes", write(HELLO), env=site)
    assert "MirrorURL: https://mirror.invalid/debian\n" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr


def test_what_pip_says_while_a_lock_is_made_shows_no_password(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    layer = (
        "summary: x\npackages: {python: [six==1.17.0]}\nversion: '1.0'\nsources: [{sdist: evil}]\n"
    )
    base = (
        "summary: x\nbootstrap: {cpu: {agent: docker, docker_image: 'x@sha256:" + "0" * 64 + "'}}\n"
        'provides: {python: "3.11"}\n'
    )
    files = {**HELLO, "layers/greet/layer.yaml": layer, "layers/tiny/layer.yaml": base}
    output = tmp_path / "x.lock.yaml"
    words = ("lock", "hello", "--recipes", write(files), "--output", output, "-v")
    mirror = ("--mirror", f"https://a.invalid/=https://me:{PASSWORD}@b.invalid/")
    done = lumicontainer(*words, *mirror, env=SITE)
    assert output.exists(), done.stderr
    assert "not pinned: greet: Python evil" in done.stderr
    for text in (done.stdout, done.stderr, output.read_text()):
        assert PASSWORD not in text
        assert BASIC[8:-4] not in text


LEAVES = """\
env
echo "$PIP_INDEX_URL" | base64 -w0
printf 'me:%s' "${https_proxy#http://me:}" | base64 -w0
mkdir -p "/opt/x" && env >/opt/x/environment && env >"$HOME/environment" && env >/tmp/environment
password="${https_proxy#http://me:}" && password="${password%%@*}"
touch "/opt/x/$password" && ln -s "/nowhere/$password" /opt/x/link
"""

Build = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir(mode=0o700)
    return tmp_path / "place"


@pytest.fixture
def build(small: Path, tmp_path: Path, place: Path) -> Build:
    """Build a recipe of one layer with this script, at a site whose URLs hold the password."""

    def run(script: str) -> subprocess.CompletedProcess[str]:
        changes = {
            "small.yaml": "summary: a small image\nbase: tiny\nlayers: [greet]\n",
            "layers/greet/layer.yaml": "summary: x\n",
            "layers/greet/install.sh": script,
            "layers/greet/checks/greeting.sh": f"{CHECK}true\n",
        }
        own = write_small(tmp_path / "own", changes)
        site = {**SITE, "LUMICONTAINER_TMPDIR": str(place)}
        return command_line("build", "small", "--recipes", own, "-v", cwd=tmp_path, env=site)

    return run


def test_a_failed_step_leaves_no_password_in_its_folder_and_log(build: Build, place: Path) -> None:
    done = build(f"{LEAVES}exit 3\n")
    assert done.returncode == STEP_FAILED, done.stderr
    assert "PIP_INDEX_URL=https://me:***@index.invalid/simple" in done.stderr, done.stderr
    kept = everything(place) + _names(place)
    for text in (done.stdout.encode(), done.stderr.encode(), kept):
        assert PASSWORD.encode() not in text
        assert BASIC[8:-4].encode() not in text
    sites = [path.read_text() for path in place.glob("*/small-*/step-greet/tmp/.*/site.sh")]
    assert sites
    assert all("https://me:***@index.invalid/simple" in text for text in sites)
    assert all("were not kept" in path.read_text() for path in place.glob("*/*/step-*/tmp/.*/tmp*"))


LEFT = """\
password="${https_proxy#http://me:}" && env >/opt/environment
touch "/opt/name-${password%%@*}"
"""


def test_a_password_that_a_step_leaves_in_its_layer_is_found(build: Build, place: Path) -> None:
    done = build(LEFT)
    assert done.returncode == STEP_FAILED, done.stderr
    assert "the step 'greet' left a secret in its files" in done.stderr
    for path in ("/opt/environment", "/opt/name-***"):
        assert f"{path}\n" in done.stderr
    assert PASSWORD.encode() not in done.stderr.encode() + everything(place) + _names(place)


def _names(root: Path) -> bytes:
    """Return all names below a folder, and where links lead."""
    paths = list(root.rglob("*"))
    links = (path.readlink() for path in paths if path.is_symlink())
    return os.fsencode("\n".join(map(str, (*paths, *links))))
