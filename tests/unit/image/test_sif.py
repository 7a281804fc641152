"""The image file is laid out as the engines want it, and damaged ones are refused."""

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.errors import InputError
from lumicontainer.image import inspect, sif, sif_format, squashfs


def image(
    path: Path,
    definition: str = "Bootstrap: x\n",
    payload: bytes = b"squash" * 99,
    metadata: Mapping[str, object] | bytes | None = None,
) -> Path:
    plan = sif.layout(definition, {"data": {}} if metadata is None else metadata)
    with path.open("wb") as file:
        file.seek(plan.offset)
        file.write(payload)
    sif.complete(path, plan, sif.hash_root(path, plan).finish(len(payload)))
    return path


def test_what_was_laid_out_is_read_again(tmp_path: Path) -> None:
    path = image(tmp_path / "x.sif", "Bootstrap: x\nä\n")
    objects = sif.read_objects(path)
    assert [each.kind for each in objects] == [sif.DEFINITION, sif.JSON, sif.PARTITION, sif.JSON]
    content = path.read_bytes()
    first, _, last, _ = objects
    assert content[first.offset : first.offset + first.size].decode() == "Bootstrap: x\nä\n"
    assert content[last.offset : last.offset + last.size] == b"squash" * 99
    assert sif.partitions(path)[0].offset % 4096 == 0


def test_equal_content_makes_equal_bytes(tmp_path: Path) -> None:
    one, two = image(tmp_path / "1.sif"), image(tmp_path / "2.sif")
    assert one.read_bytes() == two.read_bytes()


@given(st.binary(max_size=9000))
def test_bytes_that_are_no_image_are_refused_and_never_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("x") / "x.sif"
    path.write_bytes(content)
    with pytest.raises(InputError):
        sif.partitions(path)


def test_a_truncated_image_is_reported(tmp_path: Path) -> None:
    whole = image(tmp_path / "x.sif").read_bytes()
    path = tmp_path / "short.sif"
    path.write_bytes(whole[:4200])
    with pytest.raises(InputError):
        sif.partitions(path)
    (squashfs,) = sif.partitions(tmp_path / "x.sif")
    path.write_bytes(whole[: squashfs.end - 1])
    with pytest.raises(InputError, match="cut short"):
        sif.partitions(path)


def test_an_image_of_oci_layers_is_named(tmp_path: Path) -> None:
    path = image(tmp_path / "x.sif")
    content, place = bytearray(path.read_bytes()), sif_format.DESCRIPTOR_OFFSET
    struct.pack_into("<i", content, place, 0x400A)
    path.write_bytes(content)
    with pytest.raises(InputError, match="it is an OCI-SIF") as error:
        sif.partitions(path)
    assert "without --oci" in error.value.problems[0].hint


@pytest.mark.parametrize("at", [88, 96])
def test_a_header_that_counts_below_nothing_is_reported(tmp_path: Path, at: int) -> None:
    path = image(tmp_path / "x.sif")
    content = path.read_bytes()
    path.write_bytes(content[:at] + struct.pack("<q", -1) + content[at + 8 :])
    with pytest.raises(InputError, match="its header is damaged"):
        sif.read_objects(path)


@pytest.mark.parametrize("number", [-1, -(1 << 63), 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("field", [17, 25], ids=["offset", "size"])
@pytest.mark.parametrize("row", [1, 2], ids=["metadata", "partition"])
def test_a_descriptor_that_leads_out_of_the_file_is_reported(
    tmp_path: Path, row: int, field: int, number: int
) -> None:
    path = image(tmp_path / "x.sif")
    at = sif_format.DESCRIPTOR_OFFSET + row * sif_format.DESCRIPTOR_SIZE + field
    content = path.read_bytes()
    path.write_bytes(content[:at] + struct.pack("<q", number) + content[at + 8 :])
    for read in (sif.partitions, inspect.metadata_bytes, squashfs.form_of):
        if row == 1 or read != inspect.metadata_bytes:
            with pytest.raises(InputError, match=r"is damaged|is cut short"):
                read(path)


@pytest.mark.parametrize("name", ["missing.sif", "."])
def test_a_missing_image_and_a_folder_are_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot read the image"):
        sif.read_objects(tmp_path / name)
