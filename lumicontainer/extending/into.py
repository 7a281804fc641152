"""Make an extension a layer of a new image."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from lumicontainer.constants import HOME, MANIFEST
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending.extension import Order, built
from lumicontainer.extending.record import Record, extension_key
from lumicontainer.image import inspect, records, sif, squashfs
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.image.assembly.tree import find_node
from lumicontainer.inside.image.user_software import LAYERS
from lumicontainer.system.files.no_links import write_tree
from lumicontainer.system.files.partial import partial_file, remove_leftovers
from lumicontainer.system.files.write import replace
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.progress import Progress

_LABEL = "org.lumicontainer.extension"
_PACKAGES = "packages.json"


def check_image(order: Order) -> None:
    """Raise ``InputError`` if an image has a writable overlay, or the code is elsewhere."""
    image, problems = order.image, list[Problem]()
    if sif.has_overlay(image):
        hint = "name the image without it"
        problems.append(Problem("the image has an overlay of yours", str(image), hint=hint))
    if order.wanted.code:
        why, hint = "it is bound when the image starts", "use -o FILE in place of --into"
        problems.append(Problem("your own code cannot be in the image", "--editable", why, hint))
    if problems:
        raise InputError(*problems)


def is_current(order: Order, output: Path) -> bool:
    """Return whether an image is the ordered one."""
    return output.exists() and records.labels(output).get(_LABEL) == order.key()


def make(order: Order, output: Path, progress: Progress) -> Record:
    """Write a new image, and rename it when it is whole; raise what ``extension.make`` does."""
    remove_leftovers(output)
    with (
        built(order, output, progress) as (tree, _, record, before),
        partial_file(output) as partial,
    ):
        try:
            with progress.step("pack"):
                layer = tree.with_name("layer")
                _fill(layer, tree, order.image, record)
                packed = tree.with_name("layer.sqsh")
                squashfs.pack_as_root(layer, packed, *squashfs.form_of(order.image))
                _write(order, partial, packed)
            before.require_same()
            replace(partial, output)
        except OSError as error:
            raise refused(error, "cannot write the image", str(output)) from error
    return record


def _fill(layer: Path, tree: Path, image: Path, record: Record) -> None:
    """Move the packages to their place, and write the image's records with them."""
    place = sif.root(image)
    read = read_squashfs(image, place.offset, size=place.size)
    earlier = find_node(read.root, LAYERS)
    number = len(earlier.children) if earlier else 0
    new = layer / LAYERS[1:] / f"{number:02}"
    new.parent.mkdir(parents=True)
    tree.rename(new)
    listed = {kind: dict(rows) for kind, rows in records.packages(image).items()}
    listed["python"] = {**listed.get("python", {}), **record.packages}
    content = f"{json.dumps(listed, indent=1)}\n".encode()
    sums = _sums(inspect.recorded(image, MANIFEST), {_PACKAGES: content})
    home = layer / HOME[1:]
    write_tree(home, [(_PACKAGES, 0o644, content), (MANIFEST, 0o644, sums)])


def _sums(text: bytes, changed: Mapping[str, bytes]) -> bytes:
    """Return the list of hashes of an image's records with those of changed files."""
    digests = {f"./{name}": hashlib.sha256(each).hexdigest() for name, each in changed.items()}
    lines = (line.partition("  ") for line in text.decode().splitlines())
    return "".join(f"{digests.get(name, old)}  {name}\n" for old, _, name in lines).encode()


def _write(order: Order, target: Path, packed: Path) -> None:
    """Write an image of the data of the old one and of the new layer."""
    image = order.image
    found = records.metadata(image)
    inputs = {"image": records.key(image), "extension": order.key()}
    key = {inspect.KEY_LABEL: extension_key(inputs)}
    labels = {**found.labels, **key, _LABEL: order.key()}
    attributes = {"labels": labels, "deffile": found.definition or ""}
    metadata = {"data": {"attributes": attributes}, "type": "container"}
    layout = sif.layout(found.definition or "", metadata)
    root = sif.root(image)
    layers = [Source(image, root.offset, root.size), Source(packed)]
    squashfs.write_image(layers, target, layout)
