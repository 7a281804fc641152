"""What is open is asked for where it comes from: pip, apt, repositories, servers, registries."""

import hashlib
import json
import re
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lumicontainer.core.model import Bootstrap
from lumicontainer.core.plan.cleanup import PACKAGES, after_bootstrap, same_packages
from lumicontainer.core.plan.plan import adding_repositories, make_plan
from lumicontainer.core.resolve.resolve import Resolved
from lumicontainer.errors import DOWNLOAD_FAILED, DownloadError, LumicontainerError
from lumicontainer.pinning.apt import Wanted, closures, program
from lumicontainer.pinning.pip import Pip, Target, Wheel, is_of, read_report, write_stand_in
from lumicontainer.pinning.registry import pinned_image
from lumicontainer.pinning.sources import sha256_of, whole_commit
from lumicontainer.system.process import ProgramError

from .test_fetch import UPSTREAM, Upstream

# pip

Offer = Callable[..., str]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Offer wheels to pip from a folder, and nothing from elsewhere."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    def write(name: str, version: str, *needs: str, tag: str = "py3-none-any") -> str:
        file = folder / f"{name}-{version}-{tag}.whl"
        notes = f"{name}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {need}" for need in needs]
        with zipfile.ZipFile(file, "w") as wheel:
            wheel.writestr(f"{notes}/METADATA", "".join(f"{line}\n" for line in lines))
            wheel.writestr(f"{notes}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            wheel.writestr(f"{notes}/RECORD", "")
        return hashlib.sha256(file.read_bytes()).hexdigest()

    return write


def asked(*requirements: str, python: str = "3.11", glibc: str = "2.36", **more: object) -> dict:
    pip = Pip(Target(python, glibc))
    there, same = more.get("there", {}), more.get("same", {})
    return {each.name: each for each in pip.wheels(requirements, there, same=same)}


def test_stand_ins_are_known_where_the_temporary_folder_is_behind_a_link(
    offer: Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "link"))
    offer("tool", "1.0", "lib")
    assert set(asked("tool==1.0", there={"lib": "1.5"})) == {"tool"}


@pytest.mark.parametrize(
    ("told", "tag"), [("2.36-9+deb12u10", 36), ("2.17", 17), ("", 17), ("musl", 17)]
)
def test_wheels_are_of_the_c_library_that_is_told(told: str, tag: int) -> None:
    assert Target("3.11", told).tags()[0] == f"manylinux_2_{tag}_x86_64"


def test_a_package_comes_with_all_that_it_needs_and_with_hashes(offer: Offer) -> None:
    digests = {
        "tool": offer("tool", "1.0", "lib>=1"),
        "lib": offer("lib", "2.0", "deep"),
        "deep": offer("deep", "0.1"),
    }
    offer("lib", "1.5")
    found = asked("tool==1.0")
    assert {name: each.sha256 for name, each in found.items()} == digests
    assert found["lib"].version == "2.0"
    assert found["lib"].file == "lib-2.0-py3-none-any.whl"
    assert found["lib"].line == f"lib==2.0 --hash=sha256:{digests['lib']}"


def test_what_the_image_has_is_not_taken_again_nor_what_that_needs(offer: Offer) -> None:
    offer("tool", "1.0", "lib>=1")
    offer("lib", "1.5", "deep")
    offer("lib", "2.0", "deep")
    assert set(asked("tool==1.0", there={"lib": "1.5"})) == {"tool"}
    assert set(asked("tool==1.0", there={"lib": "1.5+rocm6.4"})) == {"tool"}
    with pytest.raises(ProgramError):
        asked("tool==1.0", there={"lib": "0.9"})


def test_what_is_taken_beside_others_is_of_their_versions(offer: Offer) -> None:
    offer("tool", "1.0", "lib>=1")
    offer("lib", "1.5")
    offer("lib", "2.0")
    found = asked("tool==1.0", same={"lib": "1.5", "other": "7"})
    assert {each.name: each.version for each in found.values()} == {"tool": "1.0", "lib": "1.5"}


@pytest.mark.parametrize(
    ("python", "glibc", "version"),
    [("3.11", "2.36", "2.0"), ("3.11", "2.39", "3.0"), ("3.12", "2.39", "4.0"), ("3.9", "", "1.0")],
)
def test_the_wheel_is_for_the_python_and_the_glibc_of_the_image(
    offer: Offer, python: str, glibc: str, version: str
) -> None:
    offer("lib", "1.0")
    offer("lib", "2.0", tag="cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64")
    offer("lib", "3.0", tag="cp311-cp311-manylinux_2_39_x86_64")
    offer("lib", "4.0", tag="cp312-cp312-manylinux_2_28_x86_64")
    offer("lib", "5.0", tag="cp311-cp311-win_amd64")
    assert asked("lib", python=python, glibc=glibc)["lib"].version == version


@pytest.mark.parametrize(
    ("python", "names"),
    [
        ("3.9", {"tool", "old", "older"}),
        ("3.11", {"tool", "old", "older"}),
        ("3.12", {"tool", "new", "newer"}),
        ("3.13", {"tool", "new", "newer"}),
    ],
)
def test_markers_are_judged_by_the_python_of_the_image_and_not_by_pips(
    offer: Offer, python: str, names: set[str]
) -> None:
    offer(
        "tool",
        "1.0",
        "old>=1; python_version < '3.12'",
        "new; python_full_version >= '3.12.0'",
        "windows; sys_platform == 'win32'",
        "with-an-extra; extra == 'more'",
    )
    offer("old", "1.0", "older")
    offer("new", "1.0", "newer")
    for name in ("older", "newer"):
        offer(name, "1.0")
    assert set(asked("tool==1.0", python=python)) == names


def test_what_an_extra_needs_comes_with_it_alone(offer: Offer) -> None:
    offer("tool", "1.0", "lib[more]")
    offer("lib", "1.0", "deep; extra == 'more' and python_version >= '3.13'", "no; extra == 'no'")
    offer("deep", "1.0")
    assert set(asked("tool==1.0", python="3.13")) == {"tool", "lib", "deep"}
    assert set(asked("tool==1.0", python="3.12")) == {"tool", "lib"}


def test_what_a_marker_wants_of_the_image_is_not_taken_again(offer: Offer) -> None:
    offer("tool", "1.0", "lib; python_version >= '3.13'")
    offer("lib", "1.0")
    assert set(asked("tool==1.0", python="3.13", there={"lib": "1.0"})) == {"tool"}


def test_what_an_index_tells_no_sha256_of_is_asked_for_once_and_has_none(
    offer: Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer("tool", "1.0", "lib")
    offer("lib", "1.5")
    tell_md5_alone(tmp_path, "lib-1.5-py3-none-any.whl", monkeypatch)
    found = asked("tool==1.0")
    assert set(found) == {"tool", "lib"}
    assert found["tool"].sha256
    assert found["lib"].sha256 == ""


def tell_md5_alone(place: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a wheel from those that are offered, and offer it by a page that has its MD5 sum."""
    file = (place / "wheels" / name).rename(place / name)
    digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    page = place / "index.html"
    page.write_text(f'<!DOCTYPE html><html><body><a href="{name}#md5={digest}">x</a></body></html>')
    monkeypatch.setenv("PIP_FIND_LINKS", f"{place / 'wheels'} {page}")


def test_what_has_no_wheel_is_refused(offer: Offer) -> None:
    with pytest.raises(ProgramError):
        asked("nothing==1.0")


def test_a_stand_in_is_of_no_public_version(tmp_path: Path) -> None:
    assert write_stand_in(tmp_path, "my-lib", "1.0") == "my-lib==1.0+in.the.image"
    assert write_stand_in(tmp_path, "torch", "2.9.1+rocm6.4") == "torch==2.9.1+rocm6.4.in.the.image"
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files[0] == "my_lib-1.0+in.the.image-py3-none-any.whl"


def test_a_report_is_read_in_its_old_and_its_new_form_and_without_a_hash() -> None:
    def item(name: str, archive: dict[str, object]) -> dict[str, object]:
        origin = {"url": f"https://a.example/{name}-1%2Bcpu.whl", "archive_info": archive}
        return {"metadata": {"name": name, "version": "1"}, "download_info": origin}

    found = read_report(
        {
            "install": [
                item("old", {"hash": "sha256=aa"}),
                item("new", {"hash": "sha256=bb", "hashes": {"sha256": "bb"}}),
                item("none", {}),
            ]
        }
    )
    assert {each.name: each.sha256 for each in found} == {"old": "aa", "new": "bb", "none": ""}
    assert found[0].file == "old-1+cpu.whl"


@pytest.mark.parametrize(
    ("url", "index", "of"),
    [
        ("https://download.pytorch.org/whl/x.whl", "https://download.pytorch.org/whl/cpu", True),
        ("https://download-r2.pytorch.org/x.whl", "https://download.pytorch.org/whl/cpu", True),
        ("https://files.example/x.whl", "https://download.pytorch.org/whl/cpu", False),
        ("file:///opt/x.whl", "https://download.pytorch.org/whl/cpu", False),
        ("https://files.example/x.whl", "", False),
    ],
)
def test_an_index_is_known_by_its_files(url: str, index: str, of: bool) -> None:
    assert is_of(Wheel("x", "1", "aa", url), index) == of


# apt


SIMULATED = {
    "tools": (
        "NOTE: This is only a simulation!\n"
        "Inst libtinfo6 (6.4-4 Debian:12.11/stable [amd64])\n"
        "Inst libc6 [2.36-9+deb12u9] (2.36-9+deb12u10 Debian:12.11/stable [amd64]) []\n"
        "Inst sl (5.02-1+b1 Debian:12.11/stable [amd64])\n"
        "Conf sl (5.02-1+b1 Debian:12.11/stable [amd64])\n"
    ),
    "more": (
        "Inst libtinfo6 (6.4-4 Debian:12.11/stable [amd64])\n"
        "Inst libc6 [2.36-9+deb12u9] (2.36-9+deb12u10 Debian:12.11/stable [amd64])\n"
        "Inst sl (5.02-1+b1 Debian:12.11/stable [amd64])\n"
        "Inst libgcc-s1 (12.2.0-14 Debian:12.11/stable [amd64])\n"
    ),
}


def test_each_layer_has_what_apt_adds_for_it() -> None:
    assert closures(SIMULATED) == {
        "tools": {"libtinfo6": "6.4-4", "libc6": "2.36-9+deb12u10", "sl": "5.02-1+b1"},
        "more": {"libgcc-s1": "12.2.0-14"},
    }


def test_apt_is_asked_for_each_layer_upon_those_before_it() -> None:
    text = program([Wanted(("sl", "make")), Wanted(("g++",))])
    assert text.endswith("ask 0 sl make\nask 1 g++\n")
    assert "apt-get" not in program([])
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


REPOSITORIES = {
    "layers/greet/layer.yaml": (
        "summary: x\nrepositories: add.sh\npackages: {apt: [sl]}\n"
        "sources: [{url: 'https://upstream.invalid/key', file: key}]\n"
        'parameters: {who: {type: string, default: "it\'s me"}}\n'
    ),
    "layers/greet/add.sh": 'echo "$who" "$sources/key"\n',
}


def test_a_layer_s_repositories_are_added_before_apt_is_asked_and_before_it_installs(
    resolved: Callable[..., Resolved],
) -> None:
    image = resolved(REPOSITORIES)
    (step,) = [each for each in make_plan(image, ()).steps if each.name == "greet"]
    lines = ["/fetch.sh url ", "bash ./add.sh", "apt-get ", " sl\n", "bash ./install.sh"]
    places = [step.program.index(each) for each in lines]
    assert places == sorted(places)
    adding = adding_repositories(image.layers[1])
    assert "apt-get" not in adding
    assert "install.sh)" not in adding
    text = program([Wanted(("make",)), Wanted(("sl",), adding)])
    assert text.index("ask 0 make\n") < text.index("add /") < text.index("ask 1 sl\n")
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert adding_repositories(resolved().layers[1]) == ""


def test_a_base_of_other_packages_ends_the_build_and_the_same_does_not() -> None:
    listed = subprocess.run(["bash", "-c", PACKAGES], capture_output=True, check=True).stdout
    digest = hashlib.sha256(listed).hexdigest()
    for wanted, code in ((digest, 0), ("0" * 64, DOWNLOAD_FAILED)):
        done = subprocess.run(
            ["sh", "-ec", same_packages(wanted)], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert ("LUMICONTAINER_MIRROR" in done.stderr) == bool(code)
    assert same_packages("") == ""


def test_only_a_locked_base_is_held() -> None:
    free = Bootstrap("debootstrap", "bookworm")
    assert "dpkg-query" not in after_bootstrap(free)
    assert "0" * 64 in after_bootstrap(Bootstrap("debootstrap", "bookworm", packages="0" * 64))


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
    for wanted in ("0123456", tree):
        with pytest.raises(DownloadError, match="there is no commit"):
            whole_commit(f"{UPSTREAM}tool", wanted, upstream.mirrors)
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


@pytest.mark.parametrize("image", ["ubuntu:noble", "docker.io/library/ubuntu:noble"])
def test_a_tag_becomes_the_digest_of_what_the_registry_has(registry: str, image: str) -> None:
    pin = pinned_image(image, {"docker://docker.io/": registry}, None)
    assert pin == f"{image.removesuffix(':noble')}@sha256:{hashlib.sha256(MANIFEST).hexdigest()}"


def test_a_tag_that_the_registry_lacks_is_told(registry: str) -> None:
    with pytest.raises(DownloadError) as raised:
        pinned_image("ubuntu:gone", {"docker://docker.io/": registry}, None)
    assert re.search("digest of 'ubuntu:gone' could not be asked for", str(raised.value))
    assert "404" in str(raised.value)
