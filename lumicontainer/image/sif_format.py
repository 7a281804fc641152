"""The image file's format (SIF): numbers and structures, little-endian.

A header of 128 bytes, 48 descriptors of 585 bytes from byte 4096, then the data objects. A
partition starts on a multiple of 4096. Source: Sylabs' code; tested with Apptainer 1.4.5.
"""

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

DEFINITION, PARTITION, SIGNATURE, JSON = 0x4001, 0x4004, 0x4005, 0x4006
SBOM, OCI_INDEX = 0x4009, 0x400A
CYCLONEDX = 1
"""The format of an SBOM: CycloneDX as JSON."""
SQUASHFS, EXT3 = 1, 2
SYSTEM, OVERLAY = 2, 4

_NAMES = ("definition", "environment", "labels", "partition", "signature", "JSON object")
KINDS = dict(enumerate((*_NAMES, "generic object"), DEFINITION)) | {SBOM: "SBOM"}


class Header(NamedTuple):
    """Hold the header; times are seconds since 1970, offsets and sizes are bytes."""

    launch: bytes = LAUNCH
    magic: bytes = MAGIC
    version: bytes = VERSION
    architecture: bytes = AMD64
    identity: bytes = bytes(16)
    created: int = 0
    modified: int = 0
    free: int = 0
    total: int = DESCRIPTORS
    table: int = DESCRIPTOR_OFFSET
    table_size: int = DESCRIPTORS * DESCRIPTOR_SIZE
    data: int = DATA_OFFSET
    data_size: int = 0

    def packed(self) -> bytes:
        """Return the header's bytes."""
        return _HEADER.pack(*self)


class Descriptor(NamedTuple):
    """Hold one descriptor: type, offset and size of a data object."""

    kind: int
    used: bool
    number: int
    group: int
    link: int
    offset: int
    size: int
    padded: int
    created: int
    modified: int
    user: int
    user_group: int
    label: bytes
    extra: bytes

    @property
    def name(self) -> str:
        """Return the object's name."""
        return self.label.rstrip(b"\0").decode("utf-8", "replace")

    @property
    def form(self) -> int:
        """Return the file system of a partition, such as ``SQUASHFS``; 0 for other objects."""
        return int.from_bytes(self.extra[:4], "little") if self.kind == PARTITION else 0

    @property
    def end(self) -> int:
        """Return the offset after the object."""
        return self.offset + self.size


def read_header(head: bytes) -> Header | None:
    """Return the header at the start of a file; None if the file is not a SIF image."""
    if len(head) < HEADER_SIZE:
        return None
    header = Header(*_HEADER.unpack(head[:HEADER_SIZE]))
    return header if header.magic.startswith(MAGIC) else None


def read_descriptors(table: bytes) -> list[Descriptor]:
    """Return all descriptors of a table; an incomplete row is ignored."""
    whole = len(table) // DESCRIPTOR_SIZE * DESCRIPTOR_SIZE
    return [Descriptor(*row) for row in _DESCRIPTOR.iter_unpack(table[:whole])]


def descriptor(
    number: int, kind: int, offset: int, size: int, *, name: str, extra: bytes = b""
) -> bytes:
    """Return the bytes of a used descriptor with zero times and owner."""
    row = (kind, True, number, _GROUP | 1, 0, offset, size, size, 0, 0, 0, 0)
    return _DESCRIPTOR.pack(*row, name.encode(), extra)


def align(number: int, to: int = 4096) -> int:
    """Return the next multiple of ``to`` bytes."""
    return -(-number // to) * to
