"""A requirements file names an index, which is asked in addition to pip's configured ones."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from lumicontainer.host.site import read_site

from ..cli.conftest import succeeded
from ..faults.test_git_https import encrypted, write_certificate
from ..packages import write_wheel
from .conftest import lumicontainer


def test_an_index_that_a_file_names_is_asked_besides_pips(image: Path, tmp_path: Path) -> None:
    place = tmp_path / "served/simple/only-there"
    place.mkdir(parents=True)
    write_wheel(place, "only_there", "1.0", "tabulate")
    certificate = write_certificate(tmp_path / "ca")
    trusted = tmp_path / "trusted.pem"
    known = read_site("bookworm").trust
    trusted.write_bytes(certificate.read_bytes() + (known.read_bytes() if known else b""))
    env = {"PIP_CERT": str(trusted), "no_proxy": "localhost"}
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with (
        ThreadingHTTPServer(("localhost", 0), handler) as server,
        encrypted(server, certificate) as url,
    ):
        lines = f"--extra-index-url {url}/simple\nonly-there\n"
        (tmp_path / "requirements.txt").write_text(lines)
        words = ("extend", image, "-r", "requirements.txt", "-o", "mine.sqsh")
        done = succeeded(lumicontainer(*words, cwd=tmp_path, env=env))
    assert f"{url}/simple" in done.stderr
    assert "+ only-there==1.0\n" in done.stderr
    assert "+ tabulate==" in done.stderr
