"""Ask the Docker daemon by the package ``docker``, and bound what it answers."""

from collections.abc import Iterator
from typing import Any

import docker

LARGEST = 256 << 20
"""Bytes of an answer that is read as a whole, such as the list of a container's changes."""


class _Body:
    """Be the body of an answer that may have so many bytes."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, size: int, **named: Any) -> Iterator[bytes]:
        """Yield the pieces of the body; raise ``ValueError`` if they are too many."""
        left = LARGEST
        for piece in self._raw.stream(size, **named):
            left -= len(piece)
            if left < 0:
                raise ValueError(f"it sent more than {LARGEST >> 20} MiB")
            yield piece


class _Api(docker.APIClient):  # type: ignore[misc]
    def send(self, request: Any, **named: Any) -> Any:
        """Send a request as ``requests.Session`` does; a daemon redirects none."""
        answer = super().send(request, **{**named, "stream": True, "allow_redirects": False})
        if not named.get("stream"):
            answer.raw = _Body(answer.raw)
            _ = answer.content  # It is read here, within the bound.
        return answer


class DockerClient(docker.DockerClient):  # type: ignore[misc]
    """Be the client of a daemon; ``DockerClient.from_env()`` makes that of DOCKER_HOST."""

    def __init__(self, *words: Any, **named: Any) -> None:
        self.api = _Api(*words, **named)
