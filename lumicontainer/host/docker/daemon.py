"""Find the Docker daemon, and read what it answers.

Only this module and ``client.py`` import the package ``docker``.
"""

import os
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lumicontainer.errors import HostError, LumicontainerError, Problem, SpaceError
from lumicontainer.host.transfers import json_object
from lumicontainer.system.os_errors import FULL
from lumicontainer.system.process_tree import read_start

SILENT = "the Docker daemon does not answer"
IS_FULL = "the disk of the Docker daemon is full"
FREE_SPACE = "remove what Docker does not use: docker system prune"
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
T = TypeVar("T")
_LONGEST_ROW = 1 << 20
"""Bytes of a row of its progress."""


class AnswerError(ValueError):
    """An answer of the daemon has another form; ``refusals`` reports it."""


def connect() -> Any:
    """Return the client of the daemon; raise ``HostError`` if none answers."""
    try:
        # It takes 70 ms, and the package docker is not always installed.
        from lumicontainer.host.docker.client import DockerClient  # noqa: PLC0415
    except ImportError as error:
        hint = "pip install 'lumicontainer[docker]'"
        raise HostError(Problem("the Python package docker is missing", hint=hint)) from error
    with refusals():
        return DockerClient.from_env()


@contextmanager
def refusals() -> Iterator[None]:
    """Raise ``HostError`` for each error of the daemon or of the way to it."""
    import docker  # noqa: PLC0415
    import requests  # noqa: PLC0415

    try:
        yield
    except docker.errors.APIError as error:
        raise refused_by_daemon(
            "the Docker daemon refused a request", str(error.explanation or error)
        ) from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        why = str(error)
        why, hint = next((row for row in _REFUSED if row[0] in why), (why, _HINT))
        raise HostError(Problem(SILENT, address(), why, hint)) from error
    except Exception as error:
        if not _is_of_answer(error):
            raise
        what, why = "the Docker daemon gave an invalid answer", f"{error or type(error).__name__}"
        raise HostError(Problem(what, address(), f"{why:.500}", _HINT)) from error


def _is_of_answer(error: Exception) -> bool:
    """Return whether an error is one of reading an answer: of ours, or of the package docker."""
    if isinstance(error, LumicontainerError):
        return False
    if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
        return False
    frames = (
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)
    )
    return isinstance(error, AnswerError) or any(each.split(".")[0] == "docker" for each in frames)


def read_field(row: Any, name: str, kind: type[T]) -> T:
    """Return a field of an answer's object; raise ``AnswerError`` if it is of another kind."""
    value = read_kind(row, dict).get(name)
    return read_kind(value, kind, name)


def read_kind(value: Any, kind: type[T], name: str = "the answer") -> T:
    """Return a value of an answer; raise ``AnswerError`` if it is of another kind."""
    if not isinstance(value, kind):
        raise AnswerError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def read_labels(labels: Any) -> dict[str, str]:
    """Return the labels of an answer, which may be none; raise ``AnswerError``."""
    return {
        name: read_kind(value, str, name) for name, value in read_kind(labels or {}, dict).items()
    }


def read_rows(chunks: Iterable[bytes | str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of an answer, one a line, as they come; text is an answer as a whole."""
    pending = b""
    for chunk in chunks:
        new = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk
        *rows, pending = (pending + new).split(b"\n")
        yield from map(json_object, rows)
        if len(pending) > _LONGEST_ROW:
            raise AnswerError(f"it has a row of more than {_LONGEST_ROW >> 20} MiB")
    yield json_object(pending)


def address() -> str:
    """Return where the daemon is asked."""
    return os.environ.get("DOCKER_HOST") or _DEFAULT


def own_label() -> str:
    """Return the value of the label for this process."""
    return f"{_namespace()} {os.getpid()} {read_start(os.getpid())}"


def remove_leftovers(client: Any) -> None:
    """Remove the containers and images of killed processes of this host."""
    # The plain lists: the package would ask for each entry, which another build may have removed.
    api, labelled = client.api, {"label": LABEL}
    with refusals():
        for row in filter(_is_left, read_kind(api.containers(all=True, filters=labelled), list)):
            _remove(api.remove_container, read_field(row, "Id", str), force=True, v=True)
        for row in filter(_is_left, read_kind(api.images(filters=labelled), list)):
            _remove(api.remove_image, read_field(row, "Id", str), force=True)


def _remove(remove: Callable[..., object], name: str, **options: bool) -> None:
    """Remove something, unless another build does so or uses it."""
    import docker  # noqa: PLC0415

    try:
        remove(name, **options)
    except docker.errors.APIError as error:
        if error.status_code not in _OF_ANOTHER:
            raise


def read_imported_id(printed: str) -> str:
    """Return the id of an image that the daemon made of an archive, from its answer.

    Raises ``HostError`` if it made none, and ``SpaceError`` on a full disk.
    """
    rows = [json_object(line.encode()) for line in printed.splitlines()]
    last = rows[-1] if rows else {}
    if isinstance(status := last.get("status"), str):
        return status
    why = str(last.get("error") or f"it answered {printed[-200:]!a}")
    raise refused_by_daemon("the Docker daemon made no image", why)


def refused_by_daemon(what: str, why: str) -> HostError | SpaceError:
    """Return the error for what the daemon refuses; ``SpaceError`` on a full disk."""
    if any(word.lower() in why.lower() for word in FULL):
        return SpaceError(Problem(IS_FULL, address(), why, FREE_SPACE))
    return HostError(Problem(what, address(), why, "see the daemon's log"))


def labels_of(client: Any, image: str) -> dict[str, str]:
    """Return the labels of an image; none if the daemon does not have it."""
    try:
        with refusals():
            return read_labels(client.images.get(image).labels)
    except HostError:
        return {}


def _is_left(row: Mapping[str, Any]) -> bool:
    """Return whether the process that made something has ended; others may use the label, too."""
    match = _OWN_LABEL.fullmatch(read_labels(read_kind(row, dict).get("Labels")).get(LABEL, ""))
    if match is None:
        return False
    namespace, pid, started = match.groups()
    return namespace == _namespace() and str(read_start(int(pid))) != started


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)
