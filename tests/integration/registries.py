"""A real registry of images on this machine's loopback, for the time of a test."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:0"}}
"""
_SECONDS = 30


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run Debian's docker-registry with its files in ``folder``; give its host and port."""
    (folder / "images").mkdir(parents=True)
    settings, log = folder / "settings.yaml", folder / "log"
    settings.write_text(_CONFIGURATION.format(folder=folder / "images"))
    with log.open("w") as file:
        command = ["docker-registry", "serve", str(settings)]
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield _address(server, log)
    finally:
        server.terminate()
        server.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    """Return where the registry listens, once it says so."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and server.poll() is None:
        found = re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text())
        if found:
            return found.group(1)
        time.sleep(0.05)
    raise AssertionError(log.read_text())
