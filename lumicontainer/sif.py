"""Read and write the image file (SIF), the format that Apptainer and SingularityCE share.

Little-endian: a header of 128 bytes, 48 descriptors of 585 bytes from byte 4096, then the data
objects; a partition starts on a multiple of 4096. Offsets and types as in the format's reference
implementation, checked against Apptainer 1.4.5.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.errors import InputError, Problem

_HEADER = struct.Struct("<32s10s3s3s16s8q")
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_DESCRIPTORS = 48
_DESCRIPTOR_OFFSET = 4096
_DATA_OFFSET = _DESCRIPTOR_OFFSET + _DESCRIPTORS * _DESCRIPTOR.size
_LAUNCH = b"#!/usr/bin/env run-singularity\n"
_MAGIC, _VERSION, _AMD64 = b"SIF_MAGIC", b"01", b"02"
_GROUP = 0xF0000000

DEFINITION, PARTITION, JSON = 0x4001, 0x4004, 0x4006
_SQUASHFS, _SYSTEM = 1, 2


@dataclass(frozen=True)
class Object:
    """Describe one data object of an image file."""

    kind: int
    offset: int
    size: int
    name: str


@dataclass(frozen=True)
class Layout:
    """Hold the bytes that stand before the squashfs, which starts at ``offset``."""

    head: bytes
    offset: int


def _align(number: int, to: int) -> int:
    return -(-number // to) * to


def _descriptor(index: int, kind: int, offset: int, size: int, *, name: str, extra: bytes) -> bytes:
    return _DESCRIPTOR.pack(
        kind, True, index, _GROUP | 1, 0, offset, size, size, 0, 0, 0, 0, name.encode(), extra
    )


def layout(definition: str, metadata: Mapping[str, object]) -> Layout:
    """Lay out an image file: its definition and metadata stand before the squashfs."""
    first = definition.encode()
    second = json.dumps(metadata, sort_keys=True).encode()
    start = _DATA_OFFSET
    middle = start + len(first)
    end = _align(middle + len(second), 4096)
    descriptors = _descriptor(1, DEFINITION, start, len(first), name="definition", extra=b"")
    descriptors += _descriptor(
        2, JSON, middle, len(second), name="inspect-metadata.json", extra=b""
    )
    head = descriptors.ljust(_DATA_OFFSET - _DESCRIPTOR_OFFSET, b"\0") + first + second
    return Layout(head.ljust(end - _DESCRIPTOR_OFFSET, b"\0"), end)


def complete(path: Path, plan: Layout) -> None:
    """Write the header and descriptors of an image whose squashfs was written at its offset.

    The file's identity is a hash of what it holds before the squashfs, and its times are zero, so
    that equal content makes equal bytes.
    """
    size = path.stat().st_size - plan.offset
    used = 3
    system = struct.pack("<ii3s", _SQUASHFS, _SYSTEM, _AMD64)
    partition = _descriptor(
        used, PARTITION, plan.offset, size, name="squashfs", extra=system.ljust(384, b"\0")
    )
    head = bytearray(plan.head)
    start = (used - 1) * _DESCRIPTOR.size
    head[start : start + len(partition)] = partition
    header = _HEADER.pack(
        _LAUNCH,
        _MAGIC,
        _VERSION,
        _AMD64,
        uuid.uuid5(uuid.NAMESPACE_OID, head.hex()).bytes,
        0,
        0,
        _DESCRIPTORS - used,
        _DESCRIPTORS,
        _DESCRIPTOR_OFFSET,
        _DESCRIPTORS * _DESCRIPTOR.size,
        _DATA_OFFSET,
        path.stat().st_size - _DATA_OFFSET,
    )
    with path.open("r+b") as file:
        file.write(header.ljust(_DESCRIPTOR_OFFSET, b"\0") + head)


def read_objects(path: Path) -> list[Object]:
    """Return the data objects of an image file; raise ``InputError`` where it is none."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size or header[32:41] != _MAGIC:
                raise _no_image(path, "it does not begin like an image (SIF)")
            total, offset = struct.unpack_from("<qq", header, 88)
            file.seek(offset)
            table = file.read(min(total, 1024) * _DESCRIPTOR.size)
    except OSError as error:
        raise _no_image(path, error.strerror or str(error)) from error
    whole = len(table) // _DESCRIPTOR.size * _DESCRIPTOR.size
    return [
        Object(row[0], row[5], row[6], row[12].rstrip(b"\0").decode("utf-8", "replace"))
        for row in _DESCRIPTOR.iter_unpack(table[:whole])
        if row[1]
    ]


def system_partition(path: Path) -> Object:
    """Return the partition that holds the image's root file system."""
    for each in read_objects(path):
        if each.kind == PARTITION:
            if each.offset + each.size > path.stat().st_size:
                raise _no_image(path, "it is cut short: its file system ends behind its end")
            return each
    raise _no_image(path, "it holds no file system")


def _no_image(path: Path, why: str) -> InputError:
    return InputError(
        Problem(
            "this is no image that can be read", str(path), why, "name a file such as image.sif"
        )
    )
