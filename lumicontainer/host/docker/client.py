"""Ask the Docker daemon by the package ``docker``, and bound what it answers."""

import re
from collections.abc import Iterator
from typing import Any

import docker

from lumicontainer.system import budget

LARGEST = 256 << 20
"""Bytes of every answer but an archive, such as the list of a container's changes."""
_ARCHIVE = re.compile(r"/containers/[^/]+/(?:archive|export)(?:\?|$)")
"""The requests whose answers are files of a container."""


class _Body:
    """Read the body of an answer that may have ``most`` bytes."""

    def __init__(self, raw: Any, most: int) -> None:
        self._raw, self._left = raw, most
        self._why = f"it sent more than {most >> 20} MiB"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, size: int, **named: Any) -> Iterator[bytes]:
        """Yield the pieces of the body; raise ``ValueError`` if they are too many."""
        for piece in self._raw.stream(size, **named):
            self._count(len(piece))
            yield piece

    def read(self, size: int) -> bytes:
        """Return the next bytes; raise ``ValueError`` if a chunk is larger than what is left."""
        self._count(size)
        piece: bytes = self._raw.read(size)
        return piece

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError(self._why)


class _Api(docker.APIClient):  # type: ignore[misc]
    def send(self, request: Any, **named: Any) -> Any:
        """Send a request as ``requests.Session`` does; a daemon redirects none."""
        answer = super().send(request, **{**named, "stream": True, "allow_redirects": False})
        is_archive = _ARCHIVE.search(request.path_url)
        answer.raw = _Body(answer.raw, budget.LAYER.most if is_archive else LARGEST)
        if not named.get("stream"):
            _ = answer.content  # It is read here, within the bound.
        return answer

    def _disable_socket_timeout(self, _: Any) -> None:
        """Keep the limit of the time for which a daemon may send nothing, in archives too."""


class DockerClient(docker.DockerClient):  # type: ignore[misc]
    """Be the client of a daemon; ``DockerClient.from_env()`` makes one for DOCKER_HOST."""

    def __init__(self, *words: Any, **named: Any) -> None:
        self.api = _Api(*words, **named)
