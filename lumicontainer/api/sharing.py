"""Share images through registries: push and pull."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.api.values import OnProgress, progress_of
from lumicontainer.building.image_place import check_output, require_replaceable
from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.host.site import host_trust
from lumicontainer.host.transfers import Client
from lumicontainer.image import sif
from lumicontainer.image.inspect import object_bytes
from lumicontainer.registry.failures import reporting
from lumicontainer.registry.image_name import ImageName, parse_image_name
from lumicontainer.registry.logins import find_login
from lumicontainer.registry.oci.config import recorded_config
from lumicontainer.registry.oci.push import push_oci_image
from lumicontainer.registry.pull import pull_image
from lumicontainer.registry.push import push_image
from lumicontainer.registry.remote_image import RemoteImage
from lumicontainer.system import budget, units
from lumicontainer.system.budget import Total
from lumicontainer.system.connections import Connections
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.trust.statement import read_provenance

PARTS, WHOLE, ORDINARY = "parts", "sif", "oci"
FORMS = (PARTS, WHOLE, ORDINARY)


@dataclass(frozen=True)
class PushRequest:
    """Say which image gets which name in a registry."""

    image: Path
    reference: str
    """Such as ``oci://registry.example.org/project/image:1.0``."""
    form: str = PARTS
    """``parts``: blobs that images share; ``sif``: one blob, which engines pull by ``oras://``;
    ``oci``: an ordinary OCI image, which Docker and Podman pull."""


@dataclass(frozen=True)
class PullRequest:
    """Say which image of a registry is written to which file."""

    reference: str
    output: Path | None = None
    """By default the last part of the image's name, with the suffix ``.sif``."""


class SharedImage(NamedTuple):
    """Hold the name of an image by its digest, and how many bytes went over the network."""

    reference: str
    digest: str
    size: int
    blobs: int
    moved: int
    moved_blobs: int
    path: Path

    def as_data(self) -> dict[str, Any]:
        """Return it as ``push --json`` and ``pull --json`` print it."""
        return {**self._asdict(), "path": str(self.path)}

    def traffic(self) -> str:
        """Return how much of the image went over the network."""
        sizes = f"{units.size(self.moved)} of {units.size(self.size)}"
        return f"{sizes}, {self.moved_blobs} of {self.blobs} blobs"


def push(request: PushRequest, on_progress: OnProgress | None = None) -> SharedImage:
    """Push an image: send what the registry lacks of it.

    Raises ``InputError`` for a file that is not an image, or has no record that an ordinary OCI
    image needs, and ``DownloadError`` if it fails.
    """
    reference = parse_image_name(request.reference)
    if reference.is_digest:
        hint = f"write {reference.by_digest('TAG')}".replace("@", ":")
        raise InputError(Problem("expected a tag, got a digest", str(reference), hint=hint))
    sif.partitions(request.image)
    bill = object_bytes(request.image, sif.BILL) or b""
    config = recorded_config(request.image) if request.form == ORDINARY else None
    login = find_login(reference)
    with (
        progress_of(on_progress) as progress,
        reporting("cannot push the image", reference, login),
        Connections() as connections,
    ):
        client = Client(host_trust(), login, connections)
        repository = RemoteImage(reference, client, Total(budget.IMAGE))
        words = (request.image, repository, progress)
        if config:
            pushed = push_oci_image(*words, config, bill=bill)
        else:
            whole, layers = request.form == WHOLE, _layers_of(request.image)
            pushed = push_image(*words, whole=whole, bill=bill, layers=layers)
    name = str(reference.by_digest(pushed.digest))
    return SharedImage(name, *pushed, request.image.absolute())


def pull(request: PullRequest, on_progress: OnProgress | None = None) -> SharedImage:
    """Pull an image: take what the output's place and the cache have, and fetch the rest.

    Raises ``InputError`` if the output would replace another file, and ``DownloadError`` if the
    registry does not have the image, or another one than its manifest says.
    """
    reference = parse_image_name(request.reference)
    output = (request.output or _output_for(reference)).absolute()
    check_output(output)
    require_replaceable(output)
    login = find_login(reference)
    with (
        progress_of(on_progress) as progress,
        reporting("cannot pull the image", reference, login),
        Connections() as connections,
    ):
        client = Client(host_trust(), login, connections)
        repository = RemoteImage(reference, client, Total(budget.IMAGE))
        pulled = pull_image(repository, output, progress, _find_cache())
    return SharedImage(str(reference.by_digest(pulled.digest)), *pulled, output)


def _layers_of(image: Path) -> list[str]:
    """Return the sha256 of the layers that an image was assembled of, as far as it states them."""
    with suppress(InputError):
        if provenance := read_provenance(image):
            return [each.sha256 for each in provenance.layers]
    return []


def _find_cache() -> Cache | None:
    """Return the user's cache; None without one that only the user can write to."""
    with suppress(HostError):
        return Cache(cache_root())
    return None


def _output_for(reference: ImageName) -> Path:
    return Path(f"{reference.name.rpartition('/')[2]}.sif")
