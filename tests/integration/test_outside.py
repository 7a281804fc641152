"""A site's certificates reach containers."""

import functools
import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import lumicontainer, run

FETCH = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Make a CA of the site's own, and a server's certificate by it."""
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *name]
    done = run([*new, "-keyout", "key.pem", "-out", "site.pem"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path / "site.pem"


@pytest.fixture
def server(bundle: Path) -> Iterator[str]:
    """Serve a file by https; return its URL."""
    folder = bundle.with_name("served")
    folder.mkdir()
    (folder / "word").write_text("trusted")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as served:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(bundle, bundle.with_name("key.pem"))
        served.socket = context.wrap_socket(served.socket, server_side=True)
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"https://localhost:{served.server_port}/word"
        served.shutdown()


def test_a_program_in_the_container_trusts_the_sites_ca_without_its_file_in_the_image(
    small: Path, bundle: Path, server: str
) -> None:
    own = {"SSL_CERT_FILE": str(bundle), "APPTAINER_NO_MOUNT": "tmp", "SINGULARITY_NO_MOUNT": "tmp"}
    env = {**own, "no_proxy": "localhost", "NO_PROXY": "localhost"}
    fetch = ("run", small, "--", "python3", "-c", FETCH, server)
    assert lumicontainer(*fetch, cwd=Path("/"), env=env).stdout == "trusted\n"
    without = {**env, "SSL_CERT_FILE": ""}
    refused = lumicontainer(*fetch, cwd=Path("/"), env=without)
    assert "CERTIFICATE_VERIFY_FAILED" in refused.stderr


def test_the_container_cannot_change_the_hosts_bundle(small: Path, bundle: Path) -> None:
    before = bundle.read_bytes()
    command = ("sh", "-c", 'echo x >>"$SSL_CERT_FILE"')
    done = lumicontainer("run", small, "--", *command, env={"SSL_CERT_FILE": str(bundle)})
    assert done.returncode != 0
    assert bundle.read_bytes() == before


@pytest.mark.parametrize(("own", "seen"), [(None, "False\n"), ("", "True\n"), ("1", "False\n")])
def test_packages_of_the_home_folder_are_kept_out_unless_the_user_says_otherwise(
    small: Path, own: str | None, seen: str
) -> None:
    env = {} if own is None else {"PYTHONNOUSERSITE": own}
    command = ("python3", "-c", "import site; print(site.ENABLE_USER_SITE)")
    assert lumicontainer("run", small, "--", *command, env=env).stdout == seen
