"""Make an image of the daemon from an image file.

Usage: python -m lumicontainer.host.docker.image SPEC
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.core.render.jinja import docker_quote
from lumicontainer.host.docker.container import on_host, run, serve
from lumicontainer.host.docker.daemon import read_field, read_imported_id, read_kind
from lumicontainer.system import process
from lumicontainer.system.files.temporary import plain_folder
from lumicontainer.system.terminal.output import say


class ImageSpec(NamedTuple):
    """Describe an image of the daemon."""

    file: str
    """The image file."""
    folder: str
    """A private folder, to unpack it in."""
    name: str
    labels: Mapping[str, str]
    variables: Mapping[str, str] = {}
    entry_point: Sequence[str] = ()


def load_image(client: Any, spec: ImageSpec) -> str:
    """Make an image and return its id; end this program if that fails."""
    with plain_folder("image+", Path(spec.folder)) as folder:
        scratch, tree, archive = str(folder), f"{folder}/tree", f"{folder}/image.tar"
        try:
            unpack = process.own_python("-m", "lumicontainer.host.docker.unpack", spec.file)
            say("unpacking the image for the daemon")
            if status := run(client, on_host(scratch), [*unpack, tree, archive]):
                sys.exit(status)
            say("loading it into the daemon")
            return import_image(client, archive, spec)
        finally:
            if Path(tree).exists():
                run(client, on_host(scratch), ["rm", "-rf", "--one-file-system", tree])


def import_image(client: Any, archive: str, spec: ImageSpec) -> str:
    """Make an image of an archive and return its id.

    Docker names it in the same request: killed between two, this program would leave an image that
    nobody finds. Podman's import ignores the tag of a name.
    """
    load, changes = client.api.import_image_from_file, instructions(client, spec)
    repository, _, tag = spec.name.partition(":")
    if spec.name and not _is_podman(client):
        return read_imported_id(
            load(archive, repository=repository, tag=tag or "latest", changes=changes)
        )
    image = read_imported_id(load(archive, changes=changes))
    if spec.name:
        client.api.tag(image, repository, tag or "latest")
    return image


def _is_podman(client: Any) -> bool:
    parts = read_kind(client.version(), dict).get("Components") or []
    names = [read_field(part, "Name", str) for part in read_kind(parts, list)]
    return "Podman Engine" in names


def instructions(client: Any, spec: ImageSpec) -> list[str]:
    """Return what an image has besides its files, as instructions of a Dockerfile.

    Podman removes the quotes around a value, and leaves the backslashes in it (the function
    ImageConfigFromChanges of containers/common).
    """
    quoted: Callable[[str], str] = '"{}"'.format if _is_podman(client) else docker_quote
    rows = [f"ENV {name}={quoted(value)}" for name, value in spec.variables.items()]
    rows += [f"LABEL {name}={quoted(value)}" for name, value in spec.labels.items()]
    return rows + [f"ENTRYPOINT {json.dumps(spec.entry_point)}"] * bool(spec.entry_point)


def _leave(client: Any, _: Sequence[str], fields: Mapping[str, Any]) -> int:
    load_image(client, ImageSpec(**fields))
    return 0


if __name__ == "__main__":
    serve(_leave)
