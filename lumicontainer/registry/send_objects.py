"""Send objects of the user's own cache to a cache in a registry."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.cache import integrity
from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import SUMS, Entry
from lumicontainer.cache.shared import trusted
from lumicontainer.cache.store import Cache
from lumicontainer.errors import DownloadError, HostError, Problem, SpaceError
from lumicontainer.host.site import host_trust
from lumicontainer.host.transfers import Client
from lumicontainer.registry.artifacts import CONFIG
from lumicontainer.registry.cache_objects import ObjectFile, ObjectManifest, read_object
from lumicontainer.registry.cutting import Piece
from lumicontainer.registry.failures import reporting
from lumicontainer.registry.image_name import ImageName
from lumicontainer.registry.logins import find_login
from lumicontainer.registry.push import range_of
from lumicontainer.registry.registry_cache import read_object_manifest
from lumicontainer.registry.remote_image import RemoteImage, content_of
from lumicontainer.registry.transfers import Transfers
from lumicontainer.system import budget, flock
from lumicontainer.system.budget import Total
from lumicontainer.system.connections import Connections
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.terminal.progress import Progress

SENT, PRESENT, LEFT = "sent", "there already", "not sent"


class SentObject(NamedTuple):
    """Hold what became of an object."""

    entry: Entry
    state: str
    """One of ``SENT``, ``PRESENT`` and ``LEFT``."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer build --json`` prints it."""
        entry = self.entry
        about = {"step": entry.step, "kind": entry.kind, "name": entry.name}
        return {**about, "bytes": entry.size, "state": self.state}


class SentObjects(NamedTuple):
    """Hold what became of each object, and the warning if some were not sent."""

    objects: Sequence[SentObject] = ()
    problem: Problem | None = None


def send_objects(
    entries: Sequence[Entry], store: Cache, reference: ImageName, key: str, progress: Progress
) -> SentObjects:
    """Send objects that the registry lacks, and sign them by the SSH key ``key`` if it is given."""
    states = dict.fromkeys((entry.name for entry in entries), LEFT)
    problem = None
    try:
        login = find_login(reference)
        with (
            progress.work("cache-to") as task,
            reporting("cannot send layers to the registry", reference, login),
            Connections() as connections,
            Transfers(sum(entry.size for entry in entries), task.reached) as transfers,
        ):
            client = Client(host_trust(), login, connections)
            remote = RemoteImage(reference, client, Total(budget.IMAGE))
            for entry in entries:
                states[entry.name] = _send(entry, store, remote, key, transfers)
    except (DownloadError, HostError, SpaceError) as error:
        problem = error.problems[0]._replace(where=reference.repository, level="warning")
    sent = [SentObject(entry, states[entry.name]) for entry in entries]
    left = [each.entry.shown for each in sent if each.state == LEFT]
    if left and problem is None:
        what, hint = f"not sent: {', '.join(left)}", "lumicontainer cache verify"
        problem = Problem(what, reference.repository, "damaged in the cache", hint, "warning")
    return SentObjects(sent, problem)


def _send(entry: Entry, store: Cache, remote: RemoteImage, key: str, transfers: Transfers) -> str:
    """Send what the registry lacks of an object; return its state."""
    present = _read(remote, entry.name)
    if present and _has_files(remote, present, transfers):
        transfers.add(entry.size)
        return PRESENT
    held = flock.shared(store.use_lock(entry.name))
    try:
        integrity.prove(entry.folder)
        manifest = _describe(entry.folder, key)
        works = [
            transfers.start(_send_file, entry.folder / file.name, file, remote, transfers)
            for file in manifest.files
        ]
        for work in works:
            work.result()
    except (Damaged, FileNotFoundError):
        return LEFT
    finally:
        if held is not None:
            os.close(held)
    remote.send_missing(content_of(CONFIG))
    # The same object may be signed there.
    if not present or present.sums != manifest.sums:
        remote.put_manifest(manifest.write(), entry.name)
    return SENT


def _read(remote: RemoteImage, name: str) -> ObjectManifest | None:
    """Return the object that the registry has by a name; None if it has none, or anything else."""
    body = read_object_manifest(remote, name)
    with suppress(Damaged):
        return read_object(body) if body is not None else None
    return None


def _has_files(remote: RemoteImage, manifest: ObjectManifest, transfers: Transfers) -> bool:
    answers = [transfers.start(remote.has_blob, file.digest) for file in manifest.files]
    return all(each.result() for each in answers)


def _describe(folder: Path, key: str) -> ObjectManifest:
    """Return the manifest of an object whose bytes are proven."""
    sums = (folder / SUMS).read_bytes()
    rows = integrity.sums_of(sums).items()
    files = [
        ObjectFile(name, (folder / name).stat().st_size, f"sha256:{sha}") for name, sha in rows
    ]
    return ObjectManifest(files, trusted.sign(sums, key) if key else b"")


def _send_file(path: Path, file: ObjectFile, remote: RemoteImage, transfers: Transfers) -> None:
    if remote.has_blob(file.digest):
        transfers.add(file.size)
        return
    with open_regular(path) as stream:
        piece = Piece(0, file.size, file.digest.removeprefix("sha256:"))
        remote.send_blob(range_of(stream.fileno(), piece, transfers.add))
