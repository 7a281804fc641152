"""A real registry of images on this machine's loopback, for the time of a test."""

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from .processes import until

PASSWORD = "pass-word"
_USERS = "me:$2b$04$PIzJPdzZl9JL3ryQkabuIuawc3oP.2xX3A8y//sviXVoWbtYkDDUu\n"
"""The user ``me`` with PASSWORD, as htpasswd -B writes it."""


@contextmanager
def registry(folder: Path, *, guarded: bool = False, read_only: bool = False) -> Iterator[str]:
    """Run Debian's docker-registry with its files in ``folder``; give its host and port.

    A ``guarded`` one has the certificate ``folder``/ca.pem, and lets in the user ``me``.
    """
    (folder / "images").mkdir(parents=True, exist_ok=True)
    settings, log = folder / "settings.yaml", folder / "log"
    storage: dict[str, Any] = {"filesystem": {"rootdirectory": str(folder / "images")}}
    storage["maintenance"] = {"readonly": {"enabled": read_only}}
    content: dict[str, Any] = {"version": 0.1, "storage": storage, "http": {"addr": "127.0.0.1:0"}}
    if guarded:
        (folder / "users").write_text(_USERS)
        content["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "users")}}
        content["http"]["tls"] = _write_certificate(folder)
    settings.write_text(json.dumps(content))
    with log.open("w") as file:
        command = ["docker-registry", "serve", str(settings)]
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    listening = re.compile(r"listening on (127\.0\.0\.1:\d+)")
    try:
        until(lambda: listening.search(log.read_text()) or server.poll() is not None, 300)
        match = listening.search(log.read_text())
        assert match, log.read_text()
        yield match[1]
    finally:
        server.terminate()
        server.wait()


def _write_certificate(folder: Path) -> dict[str, str]:
    key, certificate = folder / "key.pem", folder / "ca.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return {"certificate": str(certificate), "key": str(key)}


def put_image(here: str, name: str, layers: Sequence[bytes], config: dict[str, Any]) -> None:
    """Give a registry an image of these archives, whatever its configuration says about them."""
    *blobs, about = (_put_blob(here, name, each) for each in (*layers, json.dumps(config).encode()))
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": about, "layers": blobs}
    url = f"http://{here}/v2/{name}/manifests/1"
    _send("PUT", url, json.dumps(manifest).encode(), {"Content-Type": kind})


def _put_blob(here: str, name: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    place = _send("POST", f"http://{here}/v2/{name}/blobs/uploads/", b"", {})
    kind = {"Content-Type": "application/octet-stream"}
    _send("PUT", f"{place}&digest={digest}", content, kind)
    return {"mediaType": "application/octet-stream", "digest": digest, "size": len(content)}


def _send(method: str, url: str, body: bytes, headers: dict[str, str]) -> str:
    """Return where the answer leads."""
    request = Request(url, data=body, method=method, headers=headers)
    with urlopen(request, timeout=120) as answer:
        return str(answer.headers.get("Location", ""))


def fetch_bill(repository: str, digest: str) -> Any:
    """Return the bill of an image by curl, as a client without this tool finds it.

    ``repository`` is the address of its registry's API, such as ``http://HOST/v2/NAME``.
    """

    def fetch(place: str, kind: str = "") -> str:
        accept = ["--header", f"Accept: application/vnd.oci.image.{kind}.v1+json"] if kind else []
        command = ["curl", "-sSf", *accept, f"{repository}/{place}"]
        return subprocess.check_output(command, text=True)

    index = json.loads(fetch(f"manifests/{digest.replace(':', '-')}", "index"))
    referrer = json.loads(fetch(f"manifests/{index['manifests'][0]['digest']}", "manifest"))
    return json.loads(fetch(f"blobs/{referrer['layers'][0]['digest']}"))
