"""An image that is left in a daemon has its name from the first moment, so that it is found."""

from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer.host.docker.image import ImageSpec, import_image


class Daemon:
    """Record what a daemon is asked for."""

    def __init__(self, *components: str) -> None:
        self.asked: list[Any] = []
        self._components = [{"Name": each} for each in components]
        self.api = SimpleNamespace(import_image_from_file=self._load, tag=self._tag)

    def version(self) -> dict[str, Any]:
        return {"Components": self._components}

    def _load(self, _: str, **named: Any) -> str:
        self.asked.append((named.get("repository"), named.get("tag")))
        return '{"status": "loading"}\n{"status": "sha256:1"}'

    def _tag(self, *words: str) -> None:
        self.asked.append(words)


@pytest.mark.parametrize(
    ("engine", "name", "asked"),
    [
        ("Engine", "pytorch:2.13", [("pytorch", "2.13")]),
        ("Engine", "a/pytorch", [("a/pytorch", "latest")]),
        ("Engine", "", [(None, None)]),
        ("Podman Engine", "pytorch:2.13", [(None, None), ("sha256:1", "pytorch", "2.13")]),
    ],
)
def test_docker_names_an_image_in_the_request_that_makes_it(
    engine: str, name: str, asked: list[Any]
) -> None:
    daemon = Daemon(engine)
    assert import_image(daemon, "image.tar", ImageSpec("image.sif", "", name, {})) == "sha256:1"
    assert daemon.asked == asked
