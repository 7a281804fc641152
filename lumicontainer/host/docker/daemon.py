"""Find the Docker daemon. Only this module imports the package ``docker``."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lumicontainer.errors import HostError, Problem, SpaceError
from lumicontainer.host.transfers import json_object
from lumicontainer.system.os_errors import FULL

SILENT = "the Docker daemon does not answer"
LABEL = "org.lumicontainer.process"
"""The label of containers and images; its value identifies the process that made them."""
_OWN_LABEL = re.compile(r"([0-9]+) ([0-9]{1,10}) ([0-9]+)", re.ASCII)
_OF_ANOTHER = (404, 409)
"""The answers for what does not exist, and for what is being removed or used."""
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
    return f"{_namespace()} {os.getpid()} {_read_start(os.getpid())}"


def remove_leftovers(client: Any) -> None:
    """Remove the containers and images of killed processes of this host."""
    # The plain lists: the package would ask for each entry, which another build may have removed.
    api, wanted = client.api, {"label": LABEL}
    with refusals():
        for row in filter(_is_left, api.containers(all=True, filters=wanted)):
            _remove(api.remove_container, row["Id"], force=True, v=True)
        for row in filter(_is_left, api.images(filters=wanted)):
            _remove(api.remove_image, row["Id"], force=True)


def _remove(remove: Callable[..., object], name: str, **options: bool) -> None:
    """Remove something, unless another build does so or uses it."""
    import docker  # noqa: PLC0415

    try:
        remove(name, **options)
    except docker.errors.APIError as error:
        if error.status_code not in _OF_ANOTHER:
            raise


def imported_id(printed: str) -> str:
    """Return the id of an image that the daemon made of an archive, from its answer.

    Raises ``HostError`` if it made none, and ``SpaceError`` on a full disk.
    """
    rows = [json_object(line.encode()) for line in printed.splitlines()]
    last = rows[-1] if rows else {}
    if isinstance(found := last.get("status"), str):
        return found
    why = str(last.get("error") or f"it answered {printed[-200:]!a}")
    is_full = any(word.lower() in why.lower() for word in FULL)
    error = SpaceError if is_full else HostError
    raise error(Problem("the Docker daemon made no image", address(), why, "see the daemon's log"))


def labels_of(client: Any, image: str) -> dict[str, str]:
    """Return the labels of an image; none if the daemon does not have it."""
    try:
        with refusals():
            return dict(client.images.get(image).labels)
    except HostError:
        return {}


def _is_left(row: Mapping[str, Any]) -> bool:
    """Return whether the process that made something has ended; others may use the label, too."""
    found = _OWN_LABEL.fullmatch((row.get("Labels") or {}).get(LABEL, ""))
    if found is None:
        return False
    namespace, pid, started = found.groups()
    return namespace == _namespace() and _read_start(int(pid)) != started


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _read_start(pid: int) -> str:
    """Return the start of a process in clock ticks since boot; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
