"""Files of packages are downloaded on the host, and kept by their hashes."""

import hashlib
import os
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path

import pytest

from lumicontainer.errors import (
    DownloadError,
    HostError,
    StepError,
)
from lumicontainer.extending.install import download, proof
from lumicontainer.extending.install.download import with_password
from lumicontainer.extending.lock.locked import RemoteFile
from lumicontainer.host.site import Site
from lumicontainer.system import budget, process

from ....faults import hostile

SITE = Site("", "", None, {}, ())
ZEROS = "0" * 64


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteFile:
    """Return a file of an index, with its own cache."""
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    path = hostile.write_wheel(tmp_path, "a", {"a.py": "A = 1\n"})
    return RemoteFile(path.as_uri(), hashlib.sha256(path.read_bytes()).hexdigest(), path.name)


class _Slow(BaseHTTPRequestHandler):
    """Send a byte every 50 ms for two minutes; refuse other files once that has begun."""

    begun: threading.Event
    gone: threading.Event

    def do_GET(self) -> None:
        if self.path != "/slow":
            self.begun.wait(60)
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 30))
        self.end_headers()
        try:
            for _ in range(2400):
                self.wfile.write(b"x")
                self.begun.set()
                self.gone.wait(0.05)
        except OSError:
            self.gone.set()

    def log_message(self, *words: object) -> None:
        """Print nothing."""


@pytest.mark.slow
def test_the_first_failure_ends_the_other_downloads(offered: RemoteFile, tmp_path: Path) -> None:
    _Slow.begun, _Slow.gone = threading.Event(), threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        slow = RemoteFile(f"{url}/slow", ZEROS, "b-1.0.tar.gz")
        absent = RemoteFile(f"{url}/absent", "1" * 64, "c-1.0.tar.gz")
        try:
            with pytest.raises(DownloadError, match=r"cannot download c-1\.0"):
                download.download([offered, slow, absent], tmp_path, SITE)
            assert _Slow.gone.wait(60)
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    "path",
    [
        "a-1.0.egg-info/PKG-INFO",
        "a.egg-info",
        "a-2.0.dist-info/METADATA",
        "A-1.0.DIST-INFO/METADATA",
        "b-1.0.dist-info/METADATA",
        "a.dist-info/METADATA",
    ],
)
def test_a_wheel_has_the_metadata_of_itself_alone(tmp_path: Path, path: str) -> None:
    wheel = hostile.write_wheel(tmp_path, "a", {"a.py": "A = 1\n", path: "x"})
    with pytest.raises(StepError, match="it has the metadata of another package"):
        proof.InstalledWheel(wheel).read()
    assert proof.InstalledWheel(hostile.write_wheel(tmp_path, "a", {"a.py": "A = 1\n"})).read()


def test_a_file_is_kept_by_its_hash_and_hashed_again(offered: RemoteFile, tmp_path: Path) -> None:
    content = (tmp_path / offered.name).read_bytes()
    for number in range(3):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (place,) = download.download([offered], folder, SITE).values()
        assert (place.name, place.read_bytes()) == (offered.name, content)
        kept = tmp_path / "cache/packages" / offered.sha256
        if number == 0:  # The second file comes from the cache.
            (tmp_path / offered.name).rename(tmp_path / "away")
        else:
            (tmp_path / "away").rename(tmp_path / offered.name) if number == 1 else None
            kept.write_bytes(b"damaged")
    assert [path.name for path in kept.parent.iterdir()] == [offered.sha256]


def test_a_prune_meanwhile_takes_no_file_away(
    offered: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "cache/packages" / offered.sha256
    prove = download._is_proven

    def prune_and_prove(path: Path, sha256: str) -> bool:
        kept.unlink(missing_ok=True)
        return prove(path, sha256)

    monkeypatch.setattr(download, "_is_proven", prune_and_prove)
    monkeypatch.setattr(download, "replace", lambda partial, _: partial.unlink())
    for number in range(2):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (place,) = download.download([offered], folder, SITE).values()
        assert place.read_bytes() == (tmp_path / offered.name).read_bytes()
        kept.write_bytes(place.read_bytes())


def test_a_used_file_is_as_new_as_its_use(offered: RemoteFile, tmp_path: Path) -> None:
    kept = tmp_path / "cache/packages" / offered.sha256
    download.download([offered], tmp_path, SITE)
    os.utime(kept, (0, 0))
    download.download([offered], tmp_path, SITE)
    assert kept.stat().st_mtime > 0


def test_a_file_of_another_hash_is_refused(offered: RemoteFile, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="does not match its sha256"):
        download.download([offered._replace(sha256=ZEROS)], tmp_path, SITE)
    assert not list((tmp_path / "cache/packages").iterdir())


@pytest.mark.parametrize("name", ["", "..", "a/b", "-o", ".netrc", "a\nb"])
def test_a_file_has_a_plain_name(offered: RemoteFile, tmp_path: Path, name: str) -> None:
    with pytest.raises(DownloadError, match="a lock has an invalid file"):
        download.download([offered._replace(name=name)], tmp_path, SITE)


def test_the_packages_of_an_extension_have_one_limit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    files = []
    for name in ("a", "b", "c"):
        path = hostile.write_wheel(tmp_path, name, {f"{name}.py": "A = 1\n"})
        files.append(
            RemoteFile(path.as_uri(), hashlib.sha256(path.read_bytes()).hexdigest(), path.name)
        )
    sizes = [(tmp_path / each.name).stat().st_size for each in files]
    monkeypatch.setattr(budget, "PACKAGES", budget.PACKAGES._replace(most=sum(sizes)))
    assert len(download.download(files, tmp_path, SITE)) == 3
    monkeypatch.setattr(budget, "PACKAGES", budget.PACKAGES._replace(most=sum(sizes) - 1))
    why = f"all files together have more than {sum(sizes) - 1} bytes"
    with pytest.raises(DownloadError, match=why):
        download.download(files, tmp_path, SITE)


def test_the_next_download_removes_what_a_killed_one_left(
    offered: RemoteFile, tmp_path: Path
) -> None:
    store = tmp_path / "cache/packages"
    store.mkdir(parents=True, mode=0o700)
    store.parent.chmod(0o700)
    for name in ("x", "x.log"):
        (store / f".{offered.sha256}.partial-{name}").touch()
    download.download([offered], tmp_path, SITE)
    assert [path.name for path in store.iterdir()] == [offered.sha256]


class _Endless(BaseHTTPRequestHandler):
    """Send 2 MiB, and then wait until the client ends the connection."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(bytes(2 << 20))
        self.connection.settimeout(60)
        with suppress(OSError):
            self.connection.recv(1)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_a_download_ends_while_it_exceeds_the_limit_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(budget, "PACKAGES", budget.PACKAGES._replace(most=1 << 20))
    with HTTPServer(("127.0.0.1", 0), _Endless) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        file = RemoteFile(f"http://127.0.0.1:{server.server_port}/a.whl", ZEROS, "a.whl")
        with pytest.raises(DownloadError, match="all files together have more than"):
            download.download([file], tmp_path, SITE)
        server.shutdown()
    assert not list((tmp_path / "cache/packages").iterdir())


def test_no_package_is_downloaded_after_the_limit(
    offered: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "PACKAGES", budget.PACKAGES._replace(seconds=0))
    with pytest.raises(DownloadError, match="all files together did not end within 0 s"):
        download.download([offered], tmp_path, SITE)
    assert not list((tmp_path / "cache/packages").iterdir())


def test_a_host_without_curl_gets_the_name_of_its_package(
    offered: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "find", lambda _: None)
    with pytest.raises(HostError, match="curl not found") as error:
        download.download([offered._replace(url="https://x.example/a.whl")], tmp_path, SITE)
    assert error.value.problems[0].hint == "install the package curl"


def test_a_login_goes_to_its_own_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    pip = {"extra-index-url": "https://me:word@a.example/simple"}
    assert with_password("https://a.example/x.whl", pip) == "https://me:word@a.example/x.whl"
    others = ("http://a.example/x", "https://b.example/x", "https://a.example:1/x")
    assert [with_password(each, pip) for each in others] == list(others)
    (tmp_path / ".netrc").write_text("machine b.example login me password a@b\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert with_password("https://b.example/x", pip) == "https://me:a%40b@b.example/x"
    # The index chooses this address, and others on the way would read the password.
    assert with_password("http://b.example/x", pip) == "http://b.example/x"
