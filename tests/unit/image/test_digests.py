"""Every byte of an image is proven by the record in it, and what is appended is reported apart."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.image import digests, sif, sif_format
from lumicontainer.image.digests import CHANGED, NOT_RECORDED, WHOLE
from lumicontainer.image.sif_format import DESCRIPTOR_OFFSET, DESCRIPTOR_SIZE, Header

from .test_sif import image

TABLE = DESCRIPTOR_OFFSET + 4 * DESCRIPTOR_SIZE
"""The byte behind the descriptors of an image with one file system."""


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Flip one bit of a file."""
    with path.open("r+b", buffering=0) as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def flipped(path: Path, at: int, bit: int = 0) -> digests.IntegrityResult:
    """Check an image with one bit flipped, and flip that back."""
    flip(path, at, bit)
    try:
        return digests.check(path)
    finally:
        flip(path, at, bit)


def append(path: Path, content: bytes) -> None:
    """Append a signature, as an engine does that signs an image."""
    used, offset = len(sif.read_objects(path)), path.stat().st_size
    row = sif_format.descriptor(used + 1, sif_format.SIGNATURE, offset, len(content), name="")
    with path.open("r+b") as file:
        header = sif_format.read_header(file.read(sif_format.HEADER_SIZE))
        assert header is not None
        size = header.data_size + len(content)
        header = header._replace(modified=99, free=header.free - 1, data_size=size)
        descriptor = DESCRIPTOR_OFFSET + used * DESCRIPTOR_SIZE
        for place, written in ((0, header.packed()), (descriptor, row), (offset, content)):
            file.seek(place)
            file.write(written)


def places(path: Path) -> Iterator[int]:
    """Yield each byte of all parts, and some of the padding between them."""
    yield from range(sif_format.HEADER_SIZE)
    yield from range(DESCRIPTOR_OFFSET, TABLE)
    for each in sif.read_objects(path):
        yield from range(each.offset, each.end)
    padding = random.Random(7)
    yield from (padding.randrange(path.stat().st_size) for _ in range(300))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return image(tmp_path / "x.sif")


def test_an_image_as_it_was_written_is_whole(path: Path) -> None:
    integrity = digests.check(path)
    assert (integrity.state, integrity.problems, integrity.appended) == (WHOLE, (), ())
    assert integrity.proven == path.stat().st_size


@pytest.mark.slow
def test_a_flipped_bit_is_found_in_every_byte_of_every_part(path: Path) -> None:
    for number, at in enumerate(places(path)):
        integrity = flipped(path, at, number % 8)
        assert integrity.state == CHANGED, at
        assert integrity.problems, at


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (0, "header, bytes 0 to 127: its sha256 differs"),
        (48, "does not match the identity in the header"),
        (72, "time of modification: expected 0"),
        (80, "free descriptors: expected 44"),
        (1000, "padding, byte 1000: it is not zero"),
        (DESCRIPTOR_OFFSET + 20, "descriptors, bytes 4096 to"),
        (TABLE + 700, f"padding, byte {TABLE + 700}: it is not zero"),
        (sif_format.DATA_OFFSET, "definition, bytes 32176 to"),
        (sif_format.DATA_OFFSET + 14, "inspect-metadata.json, bytes 32189 to"),
        (32768, "squashfs, bytes 32768 to"),
    ],
)
def test_what_is_changed_is_named_with_its_place(path: Path, at: int, words: str) -> None:
    assert words in "\n".join(flipped(path, at).problems)


def test_a_record_that_cannot_be_found_is_no_image_without_one(path: Path) -> None:
    integrity = flipped(path, path.read_bytes().index(digests.NAME.encode()))
    assert integrity.state == CHANGED
    assert "is missing" in integrity.problems[0]


def test_an_image_that_something_else_wrote_has_no_record(path: Path) -> None:
    row = sif_format.descriptor(1, sif_format.DEFINITION, sif_format.DATA_OFFSET, 1, name="x")
    header = Header(identity=bytes(range(16)), free=47, data_size=1).packed()
    path.write_bytes(header.ljust(DESCRIPTOR_OFFSET, b"\0") + row.ljust(28080, b"\0") + b"x")
    assert digests.check(path).state == NOT_RECORDED


@pytest.mark.parametrize("change", [-1, -700, -5000, 1, 4096])
def test_a_file_that_is_shorter_or_longer_is_changed(path: Path, change: int) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + change)
    assert digests.check(path).state == CHANGED


def test_what_is_appended_leaves_the_image_whole_and_is_listed(path: Path) -> None:
    size = path.stat().st_size
    append(path, b"signed")
    integrity = digests.check(path)
    assert (integrity.state, integrity.problems, integrity.proven) == (WHOLE, (), size)
    (signature,) = integrity.appended
    assert (signature.name, signature.offset, signature.size) == ("signature", size, 6)


@pytest.mark.slow
def test_a_flipped_bit_below_what_is_appended_is_found(path: Path) -> None:
    # The descriptor of what is appended is the engine's, and no part of the image.
    engine = {*range(72, 80), *range(TABLE, TABLE + DESCRIPTOR_SIZE)}
    before = [at for at in places(path) if at not in engine]
    append(path, b"signed")
    for number, at in enumerate(before[::3]):
        assert flipped(path, at, number % 8).state == CHANGED, at


def test_bytes_that_no_descriptor_names_are_no_part_of_what_was_appended(path: Path) -> None:
    append(path, b"signed")
    with path.open("ab") as file:
        file.write(b"more")
    assert digests.check(path).state == CHANGED


def test_a_descriptor_that_points_into_the_image_appends_nothing(path: Path) -> None:
    row = sif_format.descriptor(5, sif_format.PARTITION, 32768, 594, name="squashfs")
    with path.open("r+b") as file:
        file.seek(80)
        file.write((43).to_bytes(8, "little"))
        file.seek(TABLE)
        file.write(row)
    assert "it overlaps another part" in "\n".join(digests.check(path).problems)


def test_a_large_file_system_is_hashed_in_parts_while_it_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = sif.partitions(path)
    plan = sif.layout("Bootstrap: x\n", {"data": {}})
    monkeypatch.setattr(digests, "_SLICE", 100)
    with sif.hash_root(path, plan) as hashing:
        for end in (50, 250, 420):
            hashing.reach(plan.offset + end)
        with path.open("r+b") as file:
            file.seek(plan.offset)
            file.write(b"S")  # The superblock is written last.
        parts = hashing.finish(whole.size)
    sif.complete(path, plan, parts)
    assert [part.size for part in parts] == [100] * 5 + [94]
    assert digests.check(path).state == WHOLE
    for part in parts:
        assert str(part) in "\n".join(flipped(path, part.offset, 1).problems)
