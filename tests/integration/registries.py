"""A real registry of images on this machine's loopback, for the time of a test."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .processes import until

_CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:0"}}
"""


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run Debian's docker-registry with its files in ``folder``; give its host and port."""
    (folder / "images").mkdir(parents=True)
    settings, log = folder / "settings.yaml", folder / "log"
    settings.write_text(_CONFIGURATION.format(folder=folder / "images"))
    with log.open("w") as file:
        command = ["docker-registry", "serve", str(settings)]
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    listening = re.compile(r"listening on (127\.0\.0\.1:\d+)")
    try:
        until(lambda: listening.search(log.read_text()) or server.poll() is not None, 30)
        found = listening.search(log.read_text())
        assert found, log.read_text()
        yield found[1]
    finally:
        server.terminate()
        server.wait()
