"""Make an extension a layer of a new image."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lumicontainer.constants import HOME, MANIFEST
from lumicontainer.errors import InputError, LumicontainerError, Problem
from lumicontainer.extending.extension import Order, build_extension
from lumicontainer.extending.facts import Facts
from lumicontainer.extending.image_state import ImageState
from lumicontainer.extending.record import Record, extension_key
from lumicontainer.image import build_date, inspect, records, sif, squashfs
from lumicontainer.image.assembly.layout import FOLDER
from lumicontainer.image.assembly.tree import Node, find_node
from lumicontainer.image.image_copy import ImageCopy
from lumicontainer.image.squashfs import Describe
from lumicontainer.inside.image import extensible, user_software
from lumicontainer.inside.image.user_software import LAYERS
from lumicontainer.system.files.no_links import write_tree
from lumicontainer.system.files.partial import partial_file
from lumicontainer.system.files.temporary import remove_meanwhile
from lumicontainer.system.files.write import replace
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.trust.describe import ExtensionFacts, describe_extension
from lumicontainer.trust.statement import PackedLayer

_LABEL = "org.lumicontainer.extension"
_PACKAGES = "packages.json"
_RECORDS = (f"{HOME}/{_PACKAGES}", f"{HOME}/{MANIFEST}")
_PROGRAM = f"{HOME}/lib/lumi_inside/image/user_software.py"
_ENVIRONMENT = "/.singularity.d/env/91-user-software.sh"
"""The engines read these files in the order of their names; 90 is ``%environment``."""
_NUMBER = re.compile(r"[0-9]{2}")
_MOST_LAYERS = 100
"""Python puts them on its path in the order of their names, which have two digits."""
_PATH = f"""\
#!/bin/sh
for __folder__ in {LAYERS}/*/bin; do
    if [ -d "$__folder__" ]; then export PATH="$__folder__:$PATH"; fi
done
unset __folder__
"""


def check_image(order: Order) -> None:
    """Raise ``InputError`` if an image has a writable overlay, or the code is elsewhere."""
    image, problems = order.image, list[Problem]()
    if sif.has_overlay(image):
        hint = "name the image without it"
        problems.append(Problem("the image has an overlay of yours", str(image), hint=hint))
    if order.additions.code:
        why = "it is bound when the image starts"
        hint = "name the folder alone, which copies it: ./DIR; or use -o FILE"
        problems.append(Problem("your own code cannot be in the image", "--editable", why, hint))
    if problems:
        raise InputError(*problems)


def is_current(order: Order, output: Path) -> bool:
    """Return whether an image is the ordered one."""
    if not output.exists() or records.build_date(output) != _date(order):
        return False
    return records.labels(output).get(_LABEL) == order.key()


def _date(order: Order) -> str:
    return order.build_date or records.build_date(order.image)


def make(order: Order, output: Path, progress: Progress) -> Record:
    """Write a new image, and rename it when it is whole; raise what ``extension.make`` does."""
    with partial_file(output) as draft, ImageCopy(order.image, draft, progress) as copy:

        def begin(before: ImageState, key: str) -> None:
            copy.begin(_layout(order, key), _replaced(before))

        with build_extension(order, output, progress, begin) as (tree, lock, record, before):
            try:
                with progress.step("pack"):
                    layer, packed = tree.with_name("layer"), tree.with_name("layer.sqsh")
                    _fill(layer, tree, copy.root, before, record)
                    squashfs.pack_as_root(layer, packed, *squashfs.form_of(order.image))
                    describe = _describe(before, record, lock, packed)
                    with remove_meanwhile(layer):
                        copy.finish(packed, describe)
                before.require_same()
                replace(draft, output)
            except LumicontainerError:
                before.require_same()  # A replaced image looks damaged.
                raise
            except OSError as error:
                raise refused(error, "cannot write the image", str(output)) from error
    return record


def _describe(before: ImageState, record: Record, lock: str, packed: Path) -> Describe:
    facts = ExtensionFacts(before.image, before.identity, record.command, lock)
    with packed.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    size = packed.stat().st_size
    return describe_extension(facts, PackedLayer("extension", record.key, sha256, size))


def _fill(layer: Path, tree: Path, root: Node, before: ImageState, record: Record) -> None:
    """Move the packages to their place, with the files by which the image finds and lists them."""
    image = before.image
    packages = f"{LAYERS}/{next_number(image, root):02}"
    own = records.is_recorded(image)
    files = [*(_records(image, record) if own else _startup_files(before.facts))]
    for path in (packages, *(name for name, _, _ in files)):
        require_folders(image, root, path)
    write_tree(layer, [(name[1:], mode, content) for name, mode, content in files])
    new = layer / packages[1:]
    new.parent.mkdir(parents=True, exist_ok=True)
    tree.rename(new)


def next_number(image: Path, root: Node) -> int:
    """Return the number of the next layer of packages; the image's numbers may have gaps."""
    earlier = find_node(root, LAYERS)
    names = [name.decode(errors="replace") for name in earlier.children] if earlier else []
    number = max((int(name) for name in names if _NUMBER.fullmatch(name)), default=-1) + 1
    if number >= _MOST_LAYERS:
        what, hint = "cannot add packages to the image", "use -o FILE in place of --into"
        raise InputError(Problem(what, str(image), f"it has {LAYERS}/{number - 1}", hint))
    return number


def _replaced(before: ImageState) -> list[str]:
    """Return the paths of the files that the layer has, and the image may have."""
    if records.is_recorded(before.image):
        return [*_RECORDS]
    return [path for path, _, _ in _startup_files(before.facts)]


def _records(image: Path, record: Record) -> Iterator[tuple[str, int, bytes]]:
    """Yield the records of an image that change with its packages."""
    listed = {kind: dict(rows) for kind, rows in records.packages(image).items()}
    listed["python"] = {**listed.get("python", {}), **record.packages}
    content = f"{json.dumps(listed, indent=1)}\n".encode()
    sums = _sums(inspect.read_recorded(image, MANIFEST), {_PACKAGES: content})
    for path, text in zip(_RECORDS, (content, sums), strict=True):
        yield path, 0o644, text


def _startup_files(facts: Facts) -> Iterator[tuple[str, int, bytes]]:
    """Yield the files by which an image of another program finds its extensions.

    Images of lumicontainer have them: ``extensible`` writes them in a build.
    """
    program = Path(user_software.__file__).read_bytes()
    line = extensible.line(facts.site.folder, _PROGRAM)
    yield _PROGRAM, 0o644, program
    yield f"{facts.site.place}/{extensible.NAME}", 0o644, line.encode()
    yield _ENVIRONMENT, 0o755, _PATH.encode()


def require_folders(image: Path, root: Node, path: str) -> None:
    """Raise ``InputError`` if a folder above ``path`` is a link or a file in the image."""
    node: Node | None = root
    for name in path[1:].split("/")[:-1]:
        node = node.children.get(name.encode()) if node else None
        if node and node.kind != FOLDER:
            what, hint = "cannot add packages to the image", "use -o FILE in place of --into"
            why = f"{path} would replace its '{name}', which is not a folder"
            raise InputError(Problem(what, str(image), why, hint))


def _sums(text: bytes, changed: Mapping[str, bytes]) -> bytes:
    """Return the list of hashes of an image's records, with the hashes of changed files."""
    digests = {
        f"./{name}".encode(): hashlib.sha256(each).hexdigest().encode()
        for name, each in changed.items()
    }
    lines = (line.partition(b"  ") for line in text.splitlines())
    return b"".join(b"%s  %s\n" % (digests.get(name, old), name) for old, _, name in lines)


def _layout(order: Order, key: str) -> sif.Layout:
    """Return what the new image says of itself: what the old one does, and its extension."""
    record = records.metadata(order.image)
    labels = {**record.labels, **build_date.label_of(_date(order)), _LABEL: key}
    if own := records.key(order.image):
        inputs = {"image": own, "extension": key}
        labels[inspect.KEY_LABEL] = extension_key(inputs)
    attributes = {"labels": labels, "deffile": record.definition or ""}
    metadata = {"data": {"attributes": attributes}, "type": "container"}
    return sif.layout(record.definition or "", metadata)
