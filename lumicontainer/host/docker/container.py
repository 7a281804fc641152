"""Run a program in a container with the files of a folder, or of an image.

Usage: python -m lumicontainer.host.docker.container SPEC COMMAND...

Docker takes a root filesystem only from an image. So an image is made of what is directly in the
folder, and each of its subfolders is mounted. Container and image are removed at the end, also if
this program is interrupted.
"""

import functools
import json
import os
import signal
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import lumicontainer
from lumicontainer.errors import HostError, Problem
from lumicontainer.host.docker import terminal
from lumicontainer.host.docker.daemon import (
    LABEL,
    connect,
    own_label,
    read_field,
    read_imported_id,
    read_kind,
    refusals,
)
from lumicontainer.system import budget, process
from lumicontainer.system.files.temporary import plain_folder
from lumicontainer.system.os_errors import run_guarded

_OF_CONTAINERS = ("dev", "proc", "sys")
"""Folders that Docker mounts itself."""
_PASSED_ON = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ"),
    *("LUMICONTAINER_CACHE", "LUMICONTAINER_DEBUG", "LUMICONTAINER_TMPDIR"),
)
"""The variables of the user that our own programs need in a container. The daemon keeps and shows
what it is given, and others may hold secrets."""
_REMOVED = 2
"""The kind of a removed path among the changes of a container."""
_SHARED_MEMORY = 1 << 30
"""Bytes of /dev/shm of a program that is root."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Made = TypeVar("_Made")


class Spec(NamedTuple):
    """Describe a container."""

    root: str = ""
    """A folder of this host."""
    image: str = ""
    """The image if there is no folder."""
    writable: bool = True
    """Whether the subfolders of ``root`` can be changed."""
    binds: Mapping[str, str] = {}
    """Folders and files of this host by their paths in the container; they can be read."""
    writes: Mapping[str, str] = {}
    """The same, for what can be changed."""
    user: str = ""
    folder: str = "/"
    environment: Mapping[str, str] | None = None
    """None: what programs of this package need."""
    drop: Sequence[str] = ()
    """Capabilities that the program does not get."""


def command(spec: Spec, inside: Sequence[str]) -> list[str]:
    """Return the command that runs ``inside`` in a container."""
    return [*invocation(__name__, spec), *inside]


def on_host(*writes: str) -> Spec:
    """Return a container that has all files of this host, and can change some folders."""
    return Spec(root="/", writable=False, writes={each: each for each in writes})


def invocation(module: str, spec: Any) -> list[str]:
    """Return the command that runs a module of this package with a specification."""
    paths = (str(Path(lumicontainer.__file__).parents[1]), os.environ.get("PYTHONPATH"))
    package = f"PYTHONPATH={os.pathsep.join(filter(None, paths))}"
    start = ["env", package, *process.own_python("-m", module)]
    return [*start, json.dumps(spec._asdict())]


def require_same_files() -> None:
    """Raise ``HostError`` if containers cannot read and write the user's files on this host."""
    with plain_folder("docker+") as folder:
        touch = command(on_host(str(folder)), ["touch", f"{folder}/seen"])
        done = process.in_new_session(touch, limits=budget.ENGINE)
        seen = (folder / "seen").exists()
    if not seen:
        refused = done.stderr.rpartition("why: ")[2].strip()
        why = refused or "its containers cannot write there"
        what = "the Docker daemon does not have the files of this host"
        hint = "set DOCKER_HOST to a daemon of this host that has no user namespaces"
        raise HostError(Problem(what, str(folder.parent), why, hint))


def run(client: Any, spec: Spec, inside: Sequence[str], content: bytes = b"") -> int:
    """Run a program with our terminal or the stdin ``content``; return its exit status."""
    with image_of(client, spec) as image, _container(client, spec, image, inside) as made:
        status = terminal.follow(client, made, content=content)
        moved = _take_top(client, made, spec) if spec.root and spec.writable else 0
        return status or moved


@contextmanager
def image_of(client: Any, spec: Spec) -> Iterator[str]:
    """Yield the image of a container, and remove it if it was made for this."""
    if spec.image:
        yield spec.image
        return
    label = f"LABEL {LABEL}={json.dumps(own_label())}"

    def make() -> str:
        with plain_folder("top+") as folder, (folder / "top.tar").open("w+b") as file:
            write_top(spec, file)
            file.seek(0)
            return read_imported_id(client.api.import_image_from_data(file, changes=[label]))

    with remove_after(make, lambda image: client.images.remove(image, force=True)) as image:
        yield image


@contextmanager
def remove_after(make: Callable[[], _Made], remove: Callable[[_Made], object]) -> Iterator[_Made]:
    """Yield what the daemon makes, and remove it at the end.

    A signal waits until the daemon has named what it made: it could not be removed otherwise.
    """
    with ExitStack() as stack:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            made = make()
            stack.callback(remove, made)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield made


def write_top(spec: Spec, file: IO[bytes]) -> None:
    """Write a tar of what is directly in a folder; its subfolders are empty.

    It goes to a disk: a foreign base may have large files there.
    """
    with tarfile.open(fileobj=file, mode="w") as tar:
        for path in sorted(Path(spec.root).iterdir()):
            # Files in the root folder of a host may be large, and belong to root.
            if spec.writable or path.is_symlink() or path.is_dir():
                tar.add(path, path.name, recursive=False)


def _container(
    client: Any, spec: Spec, image: str, inside: Sequence[str]
) -> AbstractContextManager[Any]:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment = dict(passed_on if spec.environment is None else spec.environment)
    if typed := sys.stdin.isatty():
        environment.setdefault("TERM", os.environ.get("TERM", "dumb"))
    create = functools.partial(
        client.containers.create,
        image,
        list(inside),
        entrypoint=[],
        user=spec.user,
        working_dir=spec.folder,
        environment=environment,
        mounts=_mounts(spec),
        cap_drop=list(spec.drop),
        # The host's network, as in Apptainer.
        network_mode="host",
        **_rights(spec),
        labels={LABEL: own_label()},
        log_config={"Type": "none"},
        stdin_open=True,
        tty=typed,
    )
    return remove_after(create, lambda made: made.remove(force=True, v=True))


def _rights(spec: Spec) -> dict[str, Any]:
    """Return the rights of a program: root would reach everybody's files in /dev/shm of the host.

    A program of the user shares it, as in Apptainer, and does not become root by a file's bits.
    """
    # SELinux would hide the files of the host.
    options = ["label=disable"]
    if spec.user:
        return {"ipc_mode": "host", "security_opt": [*options, "no-new-privileges"]}
    return {"ipc_mode": "private", "shm_size": _SHARED_MEMORY, "security_opt": options}


def _mounts(spec: Spec) -> list[Any]:
    rows: dict[str, tuple[str, bool]] = {}
    for path in sorted(Path(spec.root).iterdir()) if spec.root else ():
        if path.is_dir() and not path.is_symlink() and path.name not in _OF_CONTAINERS:
            _require_name(path)
            rows[f"/{path.name}"] = (str(path), not spec.writable)
    rows |= {target: (source, True) for target, source in spec.binds.items()}
    rows |= {target: (source, False) for target, source in spec.writes.items()}
    return [
        {"Type": "bind", "Target": target, "Source": source, "ReadOnly": closed}
        for target, (source, closed) in rows.items()
    ]


def _require_name(path: Path) -> None:
    """Raise ``HostError`` if the daemon cannot be asked for a folder: its requests are JSON."""
    try:
        path.name.encode()
    except UnicodeEncodeError as error:
        what, hint = "Docker cannot mount a folder with such a name", "rename it, or remove it"
        raise HostError(Problem(what, ascii(str(path)), "its name is not UTF-8", hint)) from error


def _take_top(client: Any, container: Any, spec: Spec) -> int:
    """Move what the program changed directly in the root folder into the folder of the host.

    Return the exit status of a program that failed to, or 0.
    """
    root = Path(spec.root)
    folders = {each.name for each in root.iterdir() if each.is_dir() and not each.is_symlink()}
    mounted = {target.split("/")[1] for target in (*spec.binds, *spec.writes)}
    hidden = {*folders, *mounted, *_OF_CONTAINERS, ".dockerenv"}
    changes = read_kind(container.diff() or [], list)
    rows = {read_field(row, "Path", str)[1:]: read_field(row, "Kind", int) for row in changes}
    names = sorted(name for name in rows if "/" not in name and name not in hidden)
    if not names:
        return 0
    remove = ["rm", "-f", *(f"{root}/{name}" for name in names)]
    with plain_folder("top+") as folder:
        archive = folder / "top.tar"
        with archive.open("wb") as file:
            for name in (each for each in names if rows[each] != _REMOVED):
                file.writelines(container.get_archive(name)[0])
        words = ["tar", "--extract", "--numeric-owner", "--ignore-zeros", "-C", spec.root]
        extract = [*words, "-f", str(archive)]
        return run(client, on_host(spec.root), remove) or run(client, on_host(spec.root), extract)


def serve(work: Callable[[Any, Sequence[str], Mapping[str, Any]], int]) -> None:
    """Run this program: connect to the daemon, and end with the status of ``work``.

    ``work`` gets the client, the words after the specification, and the specification.
    """

    def main() -> None:
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, _end)
        client = connect()
        with refusals():
            sys.exit(work(client, sys.argv[2:], json.loads(sys.argv[1])))

    sys.exit(run_guarded(main))


def _end(number: int, _: object) -> None:
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def _run(client: Any, inside: Sequence[str], fields: Mapping[str, Any]) -> int:
    content = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    return run(client, Spec(**fields), inside, content)


if __name__ == "__main__":
    serve(_run)
