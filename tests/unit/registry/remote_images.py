"""Push images to a registry of a test, and pull them."""

import json
import re
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError
from lumicontainer.host.transfers import NO_LOGIN, Client, Login
from lumicontainer.registry import cutting
from lumicontainer.registry.failures import reporting
from lumicontainer.registry.image_name import parse_image_name
from lumicontainer.registry.pull import Pulled, pull_image
from lumicontainer.registry.push import Pushed, push_image
from lumicontainer.registry.remote_image import RemoteImage
from lumicontainer.system import budget
from lumicontainer.system.budget import Total
from lumicontainer.system.terminal.progress import Progress

from .server import Registry, Reply


class Times:
    """Answer the first requests that match with a fault."""

    def __init__(self, count: int, pattern: str, reply: Reply) -> None:
        self.left, self.pattern, self.reply = count, re.compile(pattern), reply

    def __call__(self, method: str, path: str) -> Reply | None:
        if self.left and self.pattern.search(f"{method} {path}"):
            self.left -= 1
            return self.reply
        return None


def remote(registry: Registry, tag: str = "1", login: Login = NO_LOGIN) -> RemoteImage:
    mark = "@" if tag.startswith("sha256:") else ":"
    name = parse_image_name(f"oci://{registry.host}/team/image{mark}{tag}")
    return RemoteImage(name, Client(None, login), Total(budget.IMAGE))


def push(
    image: Path, registry: Registry, tag: str = "1", *, whole: bool = False, login: Login = NO_LOGIN
) -> Pushed:
    name = parse_image_name(f"oci://{registry.host}/team/image:{tag}")
    with reporting("cannot push the image", name, login), Progress("json") as progress:
        return push_image(image, remote(registry, tag, login), progress, whole=whole)


def pull(registry: Registry, output: Path, tag: str = "1", login: Login = NO_LOGIN) -> Pulled:
    name = parse_image_name(f"oci://{registry.host}/team/image:1")
    with reporting("cannot pull the image", name, login), Progress("json") as progress:
        return pull_image(remote(registry, tag, login), output, progress)


def manifest(registry: Registry) -> dict[str, object]:
    content: dict[str, object] = json.loads(registry.manifests["1"])
    return content


def edit(registry: Registry, **changes: object) -> None:
    registry.manifests["1"] = json.dumps({**manifest(registry), **changes}).encode()


def change(image: Path) -> int:
    """Replace 1000 bytes of an image; return the most that its new blobs can have."""
    with image.open("r+b") as file:
        file.seek(50_000)
        file.write(b"new" * 333)
    return 3 * cutting.MOST


def left(folder: Path) -> list[str]:
    """Return the temporary files of a folder."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def refused_pull(registry: Registry, output: Path, words: str) -> None:
    """Require that a pull fails with words, and leaves what was at the output's place."""
    before = output.read_bytes() if output.exists() else None
    with pytest.raises(DownloadError, match=words):
        pull(registry, output)
    assert (output.read_bytes() if output.exists() else None) == before
