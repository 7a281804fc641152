"""A site's certificates reach containers."""

import functools
import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import check_output, lumicontainer

FETCH = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Make a CA of the site's own, and a server's certificate by it."""
    files = ("-keyout", tmp_path / "key.pem", "-out", tmp_path / "site.pem")
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *name)
    check_output("openssl", *new, *files)
    return tmp_path / "site.pem"


@pytest.fixture
def server(bundle: Path) -> Iterator[str]:
    """Serve a file by https; return its URL."""
    (bundle.parent / "word").write_text("trusted")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(bundle.parent))
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
    env = {"APPTAINER_NO_MOUNT": "tmp", "SINGULARITY_NO_MOUNT": "tmp"}
    env |= {"no_proxy": "localhost", "NO_PROXY": "localhost"}
    fetch = ("run", small, "--", "python3", "-c", FETCH, server)
    trusting = lumicontainer(*fetch, cwd=Path("/"), env={**env, "SSL_CERT_FILE": str(bundle)})
    assert trusting.stdout == "trusted\n"
    refused = lumicontainer(*fetch, cwd=Path("/"), env={**env, "SSL_CERT_FILE": ""})
    assert "CERTIFICATE_VERIFY_FAILED" in refused.stderr


@pytest.mark.parametrize(("own", "seen"), [(None, "False\n"), ("", "True\n"), ("1", "False\n")])
def test_packages_of_the_home_folder_are_kept_out_unless_the_user_says_otherwise(
    small: Path, own: str | None, seen: str
) -> None:
    env = {} if own is None else {"PYTHONNOUSERSITE": own}
    command = ("python3", "-c", "import site; print(site.ENABLE_USER_SITE)")
    assert lumicontainer("run", small, "--", *command, env=env).stdout == seen
