"""Git is asked by https alone: the site's own certificates count, and no server without them."""

import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.errors import DownloadError
from lumicontainer.extending.reading.references import Reference
from lumicontainer.extending.sources.prepare import prepare_sources
from lumicontainer.host import git
from lumicontainer.host.site import Site
from lumicontainer.pinning.sources import sha256_of

from ..unit.host.test_fetch import Upstream, upstream

__all__ = ["upstream"]

PROJECT = '[project]\nname = "tool"\nversion = "1.0"\n'


class Backend(BaseHTTPRequestHandler):
    """Serve repositories by git's own program, a CGI script (git-http-backend(1))."""

    def __init__(self, upstream: Upstream, *arguments: Any) -> None:
        self.upstream = upstream
        super().__init__(*arguments)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        variables = {
            "GIT_PROJECT_ROOT": str(self.upstream.served),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers["Content-Type"] or "",
            "CONTENT_LENGTH": str(len(content)),
            "HTTP_CONTENT_ENCODING": self.headers["Content-Encoding"] or "",
            "GIT_PROTOCOL": self.headers["Git-Protocol"] or "",
        }
        env = {**self.upstream.environment, **variables}
        done = subprocess.run(
            ["git", "http-backend"], env=env, input=content, capture_output=True, check=False
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name of http.server

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def write_certificate(folder: Path, host: str = "localhost") -> Path:
    """Make a CA of the site's own, and a server's certificate by it with its key; return the CA."""
    folder.mkdir()
    new = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1")
    ca, key = folder / "site.pem", folder / "site-key.pem"
    own = ("-subj", "/CN=site", "-keyout", key, "-out", ca)
    names = ("-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}")
    signed = ("-CA", ca, "-CAkey", key, "-addext", "basicConstraints=critical,CA:FALSE")
    files = ("-keyout", folder / "key.pem", "-out", folder / "server.pem")
    for words in (own, (*names, *signed, *files)):
        subprocess.run([*new, *words], check=True, capture_output=True)
    return ca


@contextmanager
def encrypted(server: ThreadingHTTPServer, ca: Path) -> Iterator[str]:
    """Let a server answer by https, with the certificate beside its CA; yield its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca.with_name("server.pem"), ca.with_name("key.pem"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"https://localhost:{server.server_port}"
    finally:
        server.shutdown()


@contextmanager
def serving(upstream: Upstream, certificate: Path) -> Iterator[str]:
    with (
        ThreadingHTTPServer(("localhost", 0), partial(Backend, upstream)) as server,
        encrypted(server, certificate) as url,
    ):
        yield url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for what is fetched; nothing else says where certificates are."""
    for name in [*os.environ]:
        if name.lower() in ("no_proxy", "ssl_cert_file", "git_ssl_cainfo", "curl_ca_bundle"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("no_proxy", "localhost")
    (tmp_path / "given").mkdir()
    return tmp_path / "given"


def site_with(trust: Path | None) -> Site:
    return Site("", "", trust, {}, (), {}, {})


@pytest.mark.parametrize("revision", ["main", "v1", "a commit", "digits"])
def test_a_repository_comes_from_a_server_of_the_site_s_own_ca(
    upstream: Upstream, folder: Path, tmp_path: Path, revision: str
) -> None:
    tool = upstream.repository("tool", **{"pyproject.toml": PROJECT, "tool.py": "x = 1\n"})
    upstream.git("tag", "v1", at=tool)
    commit = upstream.head(tool)
    named = {"a commit": commit, "digits": commit[:9]}.get(revision, revision)
    certificate = write_certificate(tmp_path / "ca")
    with serving(upstream, certificate) as url:
        reference = Reference(f"{url}/tool/.git", revision=named)
        (source,) = prepare_sources([reference], folder, site_with(certificate), print).sources
    assert (source.name, getattr(source.origin, "commit_id", "")) == ("tool", commit)


@pytest.mark.parametrize("wrong", ["another CA", "no CA", "another host"])
def test_a_server_that_the_site_does_not_know_is_refused(
    upstream: Upstream, folder: Path, tmp_path: Path, wrong: str
) -> None:
    tool = upstream.repository("tool", **{"pyproject.toml": PROJECT})
    commit = upstream.head(tool)
    host = "other.invalid" if wrong == "another host" else "localhost"
    certificate = write_certificate(tmp_path / "ca", host)
    trusted = {"another CA": write_certificate(tmp_path / "other"), "no CA": None}
    trust = trusted.get(wrong, certificate)
    with serving(upstream, certificate) as url:
        for revision in ("main", commit):
            reference = Reference(f"{url}/tool/.git", name="tool", revision=revision)
            with pytest.raises(DownloadError) as error:
                prepare_sources([reference], folder, site_with(trust), print)
            (problem,) = error.value.problems
            assert problem.what == f"the certificate of {url[8:]} is not trusted"
            assert "certificate" in problem.why.lower()
            assert "pip config set global.cert" in problem.hint
    assert not list(folder.rglob("pyproject.toml"))


def test_a_pin_comes_from_a_server_of_the_site_s_own_ca(
    upstream: Upstream, folder: Path, tmp_path: Path
) -> None:
    tool = upstream.repository("tool", a="x")
    certificate = write_certificate(tmp_path / "ca")
    with serving(upstream, certificate) as url:
        place, commit = f"{url}/tool/.git", upstream.head(tool)
        assert git.whole_commit(place, commit[:9], {}, certificate) == commit
        assert len(sha256_of(f"{place}/HEAD", {}, certificate)) == 64
