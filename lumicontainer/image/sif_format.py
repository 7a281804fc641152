"""The image file's format (SIF): numbers and structures, little-endian.

A header of 128 bytes, 48 descriptors of 585 bytes from byte 4096, then the data objects; a
partition starts on a multiple of 4096. Offsets and types as in the format's reference
implementation, checked against Apptainer 1.4.5.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

LAUNCH = b"#!/usr/bin/env run-singularity\n"
MAGIC, VERSION, AMD64 = b"SIF_MAGIC", b"01", b"02"

_HEADER = struct.Struct("<32s10s3s3s16s8q")
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_GROUP = 0xF0000000

HEADER_SIZE, DESCRIPTOR_SIZE = _HEADER.size, _DESCRIPTOR.size
DESCRIPTORS = 48
DESCRIPTOR_OFFSET = 4096
DATA_OFFSET = DESCRIPTOR_OFFSET + DESCRIPTORS * DESCRIPTOR_SIZE

DEFINITION, ENVIRONMENT, LABELS, PARTITION = 0x4001, 0x4002, 0x4003, 0x4004
SIGNATURE, JSON, GENERIC = 0x4005, 0x4006, 0x4007
SQUASHFS, EXT3 = 1, 2
SYSTEM, OVERLAY = 2, 4

KINDS = {
    DEFINITION: "definition",
    ENVIRONMENT: "environment",
    LABELS: "labels",
    PARTITION: "partition",
    SIGNATURE: "signature",
    JSON: "JSON object",
    GENERIC: "generic object",
}
"""Types of data objects in words."""


class Header(NamedTuple):
    """Hold the fields of the header; times are in seconds since 1970, places in bytes."""

    launch: bytes = LAUNCH
    magic: bytes = MAGIC
    version: bytes = VERSION
    architecture: bytes = AMD64
    identity: bytes = bytes(16)
    created: int = 0
    modified: int = 0
    free: int = 0
    """How many descriptors are not used."""
    total: int = DESCRIPTORS
    table: int = DESCRIPTOR_OFFSET
    table_size: int = DESCRIPTORS * DESCRIPTOR_SIZE
    data: int = DATA_OFFSET
    data_size: int = 0

    def packed(self) -> bytes:
        """Return its bytes."""
        return _HEADER.pack(*self)


class Descriptor(NamedTuple):
    """Hold one descriptor: what a data object is, and where it lies."""

    kind: int
    used: bool
    number: int
    group: int
    link: int
    offset: int
    size: int
    padded: int
    """The size with the padding before it."""
    created: int
    modified: int
    user: int
    user_group: int
    label: bytes
    extra: bytes

    @property
    def name(self) -> str:
        """Return what the object is called."""
        return self.label.rstrip(b"\0").decode("utf-8", "replace")

    @property
    def form(self) -> int:
        """Return, of a partition, the file system that it holds, such as ``SQUASHFS``."""
        return int.from_bytes(self.extra[:4], "little") if self.kind == PARTITION else 0

    @property
    def end(self) -> int:
        """Return the byte behind it."""
        return self.offset + self.size


def read_header(head: bytes) -> Header | None:
    """Return the header at the start of a file; None where the file is no SIF image."""
    if len(head) < HEADER_SIZE:
        return None
    header = Header(*_HEADER.unpack(head[:HEADER_SIZE]))
    return header if header.magic.startswith(MAGIC) else None


def read_descriptors(table: bytes) -> list[Descriptor]:
    """Return the rows of a table of descriptors, used or not; the rest of a cut row is ignored."""
    whole = len(table) // DESCRIPTOR_SIZE * DESCRIPTOR_SIZE
    return [Descriptor(*row) for row in _DESCRIPTOR.iter_unpack(table[:whole])]


def descriptor(
    number: int, kind: int, offset: int, size: int, *, name: str, extra: bytes = b""
) -> bytes:
    """Return the bytes of a used descriptor, whose times and owner are zero."""
    row = (kind, True, number, _GROUP | 1, 0, offset, size, size, 0, 0, 0, 0)
    return _DESCRIPTOR.pack(*row, name.encode(), extra)


def align(number: int, to: int = 4096) -> int:
    """Return the next multiple of ``to`` bytes."""
    return -(-number // to) * to
