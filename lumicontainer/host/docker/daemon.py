"""Find the Docker daemon. Only this module imports the package ``docker``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lumicontainer.errors import HostError, Problem

SILENT = "the Docker daemon does not answer"
LABEL = "org.lumicontainer.process"
"""The label of containers and images; its value identifies the process that made them."""
_DEFAULT = "unix:///var/run/docker.sock"
_OTHER = "export DOCKER_HOST=unix:///run/user/1000/podman/podman.sock"
_REFUSED = (
    ("Permission denied", "sudo usermod --append --groups docker $USER, then log in again"),
    ("No such file or directory", f"sudo systemctl start docker, or name another one: {_OTHER}"),
    ("Connection refused", f"sudo systemctl start docker, or name another one: {_OTHER}"),
)
_HINT = f"check DOCKER_HOST, such as: {_OTHER}"


def connect() -> Any:
    """Return the client of the daemon; raise ``HostError`` if none answers."""
    try:
        import docker  # noqa: PLC0415 - it takes 70 ms, and is not always installed
    except ImportError as error:
        hint = "pip install 'lumicontainer[docker]'"
        raise HostError(Problem("the Python package docker is missing", hint=hint)) from error
    with refusals():
        return docker.from_env()


@contextmanager
def refusals() -> Iterator[None]:
    """Raise ``HostError`` for each error of the daemon or of the way to it."""
    import docker  # noqa: PLC0415
    import requests  # noqa: PLC0415

    try:
        yield
    except docker.errors.APIError as error:
        what = "the Docker daemon refused a request"
        raise HostError(Problem(what, why=error.explanation or str(error))) from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        why = str(error)
        why, hint = next((row for row in _REFUSED if row[0] in why), (why, _HINT))
        raise HostError(Problem(SILENT, address(), why, hint)) from error


def address() -> str:
    """Return where the daemon is asked."""
    return os.environ.get("DOCKER_HOST") or _DEFAULT


def own_label() -> str:
    """Return the value of the label for this process."""
    return f"{_namespace()} {os.getpid()} {_started(os.getpid())}"


def remove_leftovers(client: Any) -> None:
    """Remove the containers and images of killed processes of this host."""
    wanted = {"label": LABEL}
    for container in client.containers.list(all=True, filters=wanted):
        if _is_left(container.labels[LABEL]):
            container.remove(force=True, v=True)
    for image in client.images.list(all=True, filters=wanted):
        if _is_left(image.labels[LABEL]):
            client.images.remove(image.id, force=True)


def labels_of(client: Any, image: str) -> dict[str, str]:
    """Return the labels of an image; none if the daemon does not have it."""
    try:
        with refusals():
            return dict(client.images.get(image).labels)
    except HostError:
        return {}


def _is_left(label: str) -> bool:
    namespace, _, process = label.partition(" ")
    pid, _, started = process.partition(" ")
    return namespace == _namespace() and _started(int(pid)) != started


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _started(pid: int) -> str:
    """Return the start of a process in clock ticks since boot; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
