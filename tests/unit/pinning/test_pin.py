"""Open versions are asked for at their origins: pip, apt, repositories, servers, registries."""

import hashlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lumicontainer.core.plan.base import PACKAGES, same_packages
from lumicontainer.core.plan.layer_step import adding_repositories
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import DOWNLOAD_FAILED, DownloadError, InputError, LumicontainerError
from lumicontainer.host.git import whole_commit
from lumicontainer.host.registry import pinned_image
from lumicontainer.pinning.apt import LayerPackages, closures, program, read_present
from lumicontainer.pinning.sources import sha256_of
from lumicontainer.sandbox.failures import failure

from ..host.test_fetch import UPSTREAM, Upstream

pytestmark = pytest.mark.slow

# apt


SHARED = (
    "NOTE: This is only a simulation!\n"
    "Inst libtinfo6 (6.4-4 Debian:12.11/stable [amd64])\n"
    "Inst libc6 [2.36-9+deb12u9] (2.36-9+deb12u10 Debian:12.11/stable [amd64]) []\n"
    "Inst sl (5.02-1+b1 Debian:12.11/stable [amd64])\n"
    "Conf sl (5.02-1+b1 Debian:12.11/stable [amd64])\n"
)
MORE = f"{SHARED}Inst libgcc-s1 (12.2.0-14 Debian:12.11/stable [amd64])\n"


def test_each_layer_has_what_apt_adds_for_it() -> None:
    assert closures({"tools": SHARED, "more": MORE}) == {
        "tools": {"libtinfo6": "6.4-4", "libc6": "2.36-9+deb12u10", "sl": "5.02-1+b1"},
        "more": {"libgcc-s1": "12.2.0-14"},
    }


def test_the_packages_of_a_base_are_names_and_versions() -> None:
    assert read_present("g++=4:12.2\nlibc6=2.36-9+deb12u10\n") == {
        "g++": "4:12.2",
        "libc6": "2.36-9+deb12u10",
    }


@pytest.mark.parametrize("text", ["", "curl\n", "a=1\n\nb=2\n", "a=1 2\n", "=1\n", "a=\x1b[1m\n"])
def test_another_answer_of_a_base_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="gave an invalid list of its packages"):
        read_present(text)


def test_apt_is_asked_for_each_layer_on_those_before_it() -> None:
    text = program([LayerPackages(("sl", "make")), LayerPackages(("g++",))])
    assert text.endswith("ask 0 sl make\nask 1 g++\n")
    assert "apt-get" not in program([])
    subprocess.run(["bash", "-n", "-c", text], check=True)


REPOSITORIES = {
    "layers/greet/layer.yaml": (
        "summary: x\napt_repositories: add.sh\npackages: {apt: [sl]}\n"
        "sources: [{url: 'https://upstream.invalid/key', file: key}]\n"
        'parameters: {who: {type: string, default: "it\'s me"}}\n'
    ),
    "layers/greet/add.sh": 'echo "$who" "$sources/key"\n',
}


def test_repositories_are_added_before_packages(resolved: Callable[..., Resolved]) -> None:
    image = resolved(REPOSITORIES)
    (step,) = [each for each in make_plan(image, ()).steps if each.name == "greet"]
    lines = ["/fetch.sh url ", "bash ./add.sh", "apt-get ", " sl\n", "bash ./install.sh"]
    places = [step.program.index(each) for each in lines]
    assert places == sorted(places)
    adding = adding_repositories(image.layers[1])
    assert "apt-get" not in adding
    assert "install.sh)" not in adding
    text = program([LayerPackages(("make",)), LayerPackages(("sl",), adding)])
    assert text.index("ask 0 make\n") < text.index("add /") < text.index("ask 1 sl\n")
    subprocess.run(["bash", "-n", "-c", text], check=True)
    assert adding_repositories(resolved().layers[1]) == ""


def test_a_base_of_other_packages_ends_the_build_and_the_same_does_not() -> None:
    listed = subprocess.run(["bash", "-c", PACKAGES], capture_output=True, check=True).stdout
    for digest, code in ((hashlib.sha256(listed).hexdigest(), 0), ("0" * 64, DOWNLOAD_FAILED)):
        command = ["sh", "-ec", same_packages(digest)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("LUMICONTAINER_MIRROR" in done.stderr) == bool(code)
        assert bool(failure._NOT_DOWNLOADED.search(done.stderr)) == bool(code)


# sources


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path)


def test_a_short_commit_becomes_whole_although_no_branch_ends_in_it(upstream: Upstream) -> None:
    folder = upstream.repository("tool", a="x")
    commit = upstream.git("rev-parse", "HEAD", at=folder)
    upstream.later(folder)
    for digits in (7, 12, 40):
        assert whole_commit(f"{UPSTREAM}tool", commit[:digits], upstream.mirrors) == commit


def test_a_commit_that_is_not_there_or_no_commit_is_refused(upstream: Upstream) -> None:
    folder = upstream.repository("tool", a="x")
    tree = upstream.git("rev-parse", "HEAD^{tree}", at=folder)
    for revision in ("0123456", tree):
        with pytest.raises(DownloadError, match="there is no commit"):
            whole_commit(f"{UPSTREAM}tool", revision, upstream.mirrors)
    with pytest.raises(LumicontainerError):
        whole_commit(f"{UPSTREAM}nothing", "0123456", upstream.mirrors)


def test_a_file_is_downloaded_for_its_hash_by_its_mirror(upstream: Upstream) -> None:
    (upstream.served / "x.tgz").write_bytes(b"\0content")
    digest = hashlib.sha256(b"\0content").hexdigest()
    assert sha256_of(f"{UPSTREAM}x.tgz", upstream.mirrors) == digest
    with pytest.raises(LumicontainerError):
        sha256_of(f"{UPSTREAM}y.tgz", upstream.mirrors)


# registries

MANIFEST = json.dumps({"schemaVersion": 2, "manifests": []}).encode()


class _Registry(BaseHTTPRequestHandler):
    """Give one manifest to whoever fetched a token first, as Docker's registry does."""

    def do_GET(self) -> None:
        asks = f'Bearer realm="http://{self.headers["Host"]}/token",service="s",scope="pull"'
        if self.path == "/token?service=s&scope=pull":
            self.answer(200, b'{"token": "open"}')
        elif self.path != "/v2/library/ubuntu/manifests/noble":
            self.answer(404, b"{}")
        elif self.headers.get("Authorization") != "Bearer open":
            self.answer(401, b"{}", asks)
        elif "oci.image.index" in self.headers["Accept"]:
            self.answer(200, MANIFEST)

    def answer(self, code: int, body: bytes, asks: str = "") -> None:
        self.send_response(code)
        if asks:
            self.send_header("WWW-Authenticate", asks)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "image", ["ubuntu:noble", "docker.io/ubuntu:noble", "docker.io/library/ubuntu:noble"]
)
def test_a_tag_becomes_the_digest_of_what_the_registry_has(registry: str, image: str) -> None:
    pin = pinned_image(image, {"docker://docker.io/": registry}, None)
    assert pin == f"{image.removesuffix(':noble')}@sha256:{hashlib.sha256(MANIFEST).hexdigest()}"


def test_a_tag_that_is_not_in_the_registry_is_reported(registry: str) -> None:
    with pytest.raises(DownloadError, match=r"(?s)cannot read the digest of 'ubuntu:gone'.*404"):
        pinned_image("ubuntu:gone", {"docker://docker.io/": registry}, None)
