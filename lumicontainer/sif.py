"""Read and write the image file (SIF), the format that Apptainer and SingularityCE share.

Little-endian: a header of 128 bytes, 48 descriptors of 585 bytes from byte 4096, then the data
objects; a partition starts on a multiple of 4096. Offsets and types as in the format's reference
implementation, checked against Apptainer 1.4.5.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Mapping, Sequence
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
SQUASHFS, EXT3 = 1, 2
_SYSTEM, _OVERLAY = 2, 4
MAX_PARTITIONS = _DESCRIPTORS - 2


@dataclass(frozen=True)
class Object:
    """Describe one data object of an image file."""

    kind: int
    offset: int
    size: int
    name: str
    form: int = 0
    """Of a partition: the file system that it holds, such as ``SQUASHFS``."""


@dataclass(frozen=True)
class Layout:
    """Hold the bytes before the file systems, the first of which starts at ``offset``."""

    head: bytes
    offset: int


def align(number: int, to: int = 4096) -> int:
    """Return the next multiple of ``to`` bytes."""
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
    end = align(middle + len(second))
    descriptors = _descriptor(1, DEFINITION, start, len(first), name="definition", extra=b"")
    descriptors += _descriptor(
        2, JSON, middle, len(second), name="inspect-metadata.json", extra=b""
    )
    head = descriptors.ljust(_DATA_OFFSET - _DESCRIPTOR_OFFSET, b"\0") + first + second
    return Layout(head.ljust(end - _DESCRIPTOR_OFFSET, b"\0"), end)


@dataclass(frozen=True)
class Partition:
    """Say where a squashfs lies in an image file, in bytes; the offset is a multiple of 4096."""

    offset: int
    size: int


def complete(path: Path, plan: Layout, partitions: Sequence[Partition]) -> None:
    """Write the header and descriptors of an image whose file systems were written before.

    The first is the root file system, each further one is an overlay on top of those before it. The
    file's identity is a hash of what it holds before them, and its times are zero, so that equal
    content makes equal bytes.
    """
    head = bytearray(plan.head)
    for used, partition in enumerate(partitions, start=3):
        kind, name = (_SYSTEM, "squashfs") if used == 3 else (_OVERLAY, f"overlay {used - 3}")
        extra = struct.pack("<ii3s", SQUASHFS, kind, _AMD64).ljust(384, b"\0")
        row = _descriptor(used, PARTITION, partition.offset, partition.size, name=name, extra=extra)
        start = (used - 1) * _DESCRIPTOR.size
        head[start : start + len(row)] = row
    header = _HEADER.pack(
        _LAUNCH,
        _MAGIC,
        _VERSION,
        _AMD64,
        uuid.uuid5(uuid.NAMESPACE_OID, head.hex()).bytes,
        0,
        0,
        MAX_PARTITIONS - len(partitions),
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
            if min(total, offset) < 0:
                raise _no_image(path, "its header is damaged")
            file.seek(offset)
            table = file.read(min(total, 1024) * _DESCRIPTOR.size)
    except OSError as error:
        raise _no_image(path, error.strerror or str(error)) from error
    whole = len(table) // _DESCRIPTOR.size * _DESCRIPTOR.size
    return [
        Object(
            row[0],
            row[5],
            row[6],
            row[12].rstrip(b"\0").decode("utf-8", "replace"),
            int.from_bytes(row[13][:4], "little") if row[0] == PARTITION else 0,
        )
        for row in _DESCRIPTOR.iter_unpack(table[:whole])
        if row[1]
    ]


def partitions(path: Path) -> list[Object]:
    """Return the file systems of an image, the root's first and what lies on top of it after."""
    found = [each for each in read_objects(path) if each.kind == PARTITION]
    if not found:
        raise _no_image(path, "it holds no file system")
    if any(each.offset + each.size > path.stat().st_size for each in found):
        raise _no_image(path, "it is cut short: a file system ends behind its end")
    return found


def _no_image(path: Path, why: str) -> InputError:
    return InputError(
        Problem(
            "this is no image that can be read", str(path), why, "name a file such as image.sif"
        )
    )
