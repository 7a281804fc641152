"""Read and write image files (SIF), the format of Apptainer and SingularityCE."""

import json
import shlex
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import InputError, Problem
from lumicontainer.image import digests, sif_format
from lumicontainer.image.digests import Part
from lumicontainer.image.sif_format import DATA_OFFSET, DESCRIPTOR_OFFSET, Descriptor, Header, align
from lumicontainer.system.files.regular import open_regular

__all__ = ["DEFINITION", "EXT3", "JSON", "PARTITION", "SQUASHFS", "align"]

DEFINITION, JSON, PARTITION = sif_format.DEFINITION, sif_format.JSON, sif_format.PARTITION
SQUASHFS, EXT3 = sif_format.SQUASHFS, sif_format.EXT3
DOCUMENTS = (JSON, sif_format.SBOM)
"""The kinds of objects that describe an image."""
METADATA = "inspect-metadata.json"
"""The object that the engines' ``inspect`` reads."""
BILL, PROVENANCE = "lumicontainer-sbom.cdx.json", "lumicontainer-provenance.json"
"""The objects after the squashfs: the bill of materials, and the statement of provenance."""
_KINDS = {"definition": DEFINITION, **dict.fromkeys((METADATA, PROVENANCE, digests.NAME), JSON)}
_KINDS |= {BILL: sif_format.SBOM}
_EXTRAS = {
    PARTITION: struct.pack("<ii3s", SQUASHFS, sif_format.SYSTEM, sif_format.AMD64),
    sif_format.SBOM: struct.pack("<i", sif_format.CYCLONEDX),
}


class Layout(NamedTuple):
    """Hold the bytes before the first file system, which starts at ``offset``."""

    parts: tuple[Part, ...]
    """Describe the definition and the metadata, whose bytes are ``data``."""
    data: bytes
    offset: int


def layout(definition: str, metadata: Mapping[str, object] | bytes) -> Layout:
    """Lay out the part of an image before its squashfs: definition and metadata (bytes or JSON)."""
    if not isinstance(metadata, bytes):
        metadata = json.dumps(metadata, sort_keys=True).encode()
    data, parts = b"", []
    for name, text in (("definition", definition.encode()), (METADATA, metadata)):
        parts.append(digests.part(name, DATA_OFFSET + len(data), text))
        data += text
    return Layout(tuple(parts), data, align(DATA_OFFSET + len(data)))


def hash_root(path: Path, plan: Layout) -> digests.Slices:
    """Return the hashing of the squashfs of an image while it is written."""
    return digests.Slices(path, digests.FILE_SYSTEM, plan.offset)


def complete(
    path: Path, plan: Layout, root: Sequence[Part], described: Mapping[str, bytes] | None = None
) -> None:
    """Complete an image whose file system is written; ``root`` are its parts.

    The objects that describe it follow, by their names, then the record of digests. The identity is
    a hash of the record and times are zero, so that equal content makes equal bytes.
    """
    size, end = root[-1].end - plan.offset, root[-1].end
    objects, after = [*plan.parts, Part(digests.FILE_SYSTEM, plan.offset, size)], list[Part]()
    for name, content in (described or {}).items():
        after.append(digests.part(name, align(end), content))
        end = after[-1].end
    table, text = _record([*objects, *after], [*plan.parts, *root, *after])
    end, free = table[-1].end, sif_format.DESCRIPTORS - len(table)
    header = Header(identity=digests.identity(text), free=free, data_size=end - DATA_OFFSET)
    head = header.packed().ljust(DESCRIPTOR_OFFSET, b"\0")
    head += _packed(table).ljust(DATA_OFFSET - DESCRIPTOR_OFFSET, b"\0") + plan.data
    with path.open("r+b") as file:
        file.truncate(root[-1].end)
        file.truncate(end)
        file.write(head.ljust(plan.offset, b"\0"))
        for place, content in zip(
            [*after, table[-1]], [*(described or {}).values(), text], strict=True
        ):
            file.seek(place.offset)
            file.write(content)


def _record(objects: Sequence[Part], parts: Sequence[Part]) -> tuple[list[Part], bytes]:
    """Return the data objects, which end with the record of the parts, and the record's text."""
    header = Part("header", 0, sif_format.HEADER_SIZE, digests.of_header(Header()))
    rows = (len(objects) + 1) * sif_format.DESCRIPTOR_SIZE
    # The table has the size of the record, and the record has the sha256 of the table.
    draft = digests.record([header, Part("descriptors", DESCRIPTOR_OFFSET, rows), *parts])
    table = [*objects, Part(digests.NAME, align(parts[-1].end), len(draft))]
    described = digests.part("descriptors", DESCRIPTOR_OFFSET, _packed(table))
    return table, digests.record([header, described, *parts])


def _packed(table: Sequence[Part]) -> bytes:
    rows = b""
    for number, part in enumerate(table, 1):
        kind, place = _KINDS.get(part.name, PARTITION), (part.offset, part.size)
        extra = _EXTRAS.get(kind, b"")
        rows += sif_format.descriptor(number, kind, *place, name=part.name, extra=extra)
    return rows


def read_objects(path: Path) -> list[Descriptor]:
    """Return the data objects of an image; raise ``InputError`` for another file."""
    try:
        with open_regular(path) as file:
            header = sif_format.read_header(file.read(sif_format.HEADER_SIZE))
            if header is None:
                raise no_image(path, "it has no SIF header", NO_IMAGE)
            if min(header.total, header.table) < 0:
                raise no_image(path, "its header is damaged")
            file.seek(header.table)
            table = file.read(min(header.total, 1024) * sif_format.DESCRIPTOR_SIZE)
    except OSError as error:
        hint = NO_IMAGE
        if isinstance(error, PermissionError):
            hint = f"ask its owner to let you read it: chmod a+r {shlex.quote(str(path))}"
        raise no_image(path, error.strerror or str(error), hint) from error
    return [row for row in sif_format.read_descriptors(table) if row.used]


def partitions(path: Path) -> list[Descriptor]:
    """Return the file systems of an image: the squashfs, then overlays that users added."""
    every = read_objects(path)
    rows = [each for each in every if each.kind == PARTITION]
    if any(each.kind == sif_format.OCI_INDEX for each in every):
        why = "it is an OCI-SIF, which runs in user namespaces only; LUMI has none"
        raise no_image(path, why, "pull it again without --oci: singularity pull docker://IMAGE")
    if not rows:
        raise no_image(path, "it has no file system")
    if wrong := [each.name or "an object" for each in every if min(each.offset, each.size) < 0]:
        raise no_image(path, f"its descriptor of {wrong[0]} is damaged")
    size = path.stat().st_size
    if cut := [each.name or "an object" for each in every if each.end > size]:
        raise no_image(path, f"it is cut short: {cut[0]} ends after the end of the file")
    return rows


def root(path: Path) -> Descriptor:
    """Return the squashfs of an image; raise ``InputError`` if it has several, or none."""
    squashfs = [each for each in partitions(path) if each.form == SQUASHFS]
    if len(squashfs) != 1:
        why = f"it has {len(squashfs)} file systems that are squashfs, expected one"
        raise no_image(path, why, "build it again, or unpack it and build an image of the files")
    return squashfs[0]


def has_overlay(path: Path) -> bool:
    """Return whether a user added a writable overlay (``singularity overlay create``)."""
    return any(each.form == EXT3 for each in partitions(path))


NO_IMAGE = "name an image file, such as image.sif"
DAMAGED = "copy the image from its source, or rebuild it"


def no_image(path: Path, why: str, hint: str = DAMAGED) -> InputError:
    """Return the error for a file that cannot be read as an image."""
    return InputError(Problem("cannot read the image", str(path), why, hint))
