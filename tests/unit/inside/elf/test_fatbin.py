"""For which GPUs a library carries code, in every form in which compilers leave it."""

import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.elf.fatbin import Code, codes
from lumicontainer.inside.elf.reader import UnreadableError

from ....faults.bundles import bundle, compressed, library, section

pytestmark = pytest.mark.slow


def targets(path: Path) -> str:
    return " ".join(map(str, codes(str(path))))


def test_every_bundle_of_a_library_is_read(tmp_path: Path) -> None:
    whole = section(bundle("gfx908", "gfx90a:sramecc+:xnack-"), bundle("gfx1100"))
    assert targets(library(tmp_path / "a.so", whole)) == "gfx908 gfx90a:sramecc+:xnack- gfx1100"


forms = pytest.mark.parametrize(
    "form", [{"version": v, "method": m} for v in (1, 2, 3) for m in ("zlib", "zstd")], ids=str
)


@forms
def test_compressed_bundles_are_read(tmp_path: Path, form: dict[str, Any]) -> None:
    packed = [compressed(bundle(each), **form) for each in ("gfx90a", "gfx942")]
    assert targets(library(tmp_path / "a.so", section(*packed))) == "gfx90a gfx942"


@forms
def test_of_a_large_compressed_bundle_only_the_start_is_held(
    tmp_path: Path, form: dict[str, Any]
) -> None:
    code = random.Random(0).randbytes(1 << 24)
    path = library(tmp_path / "a.so", compressed(bundle("gfx90a", code=code), **form))
    tracemalloc.start()
    assert targets(path) == "gfx90a"
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < len(code) / 4


def test_a_library_without_code_for_gpus_has_none(tmp_path: Path) -> None:
    path = library(tmp_path / "a.so", bundle("gfx90a"))
    assert targets(path) == "gfx90a"
    plain = tmp_path / "plain.so"
    plain.write_bytes(path.read_bytes().replace(b".hip_fatbin", b".its_fatbin"))
    assert targets(plain) == ""


def test_an_entry_without_code_does_not_count(tmp_path: Path) -> None:
    assert targets(library(tmp_path / "a.so", bundle("gfx90a", code=b""))) == ""


BUNDLE = bundle("gfx90a")
REST = b"\xff" * 80


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"nothing of that form", id="no bundle"),
        pytest.param(compressed(BUNDLE)[:40] + bytes(200), id="cut short"),
        pytest.param(BUNDLE[:24] + REST, id="too many targets"),
        pytest.param(BUNDLE[:24] + struct.pack("<QQQQ", 1, 0, 0, 1 << 40), id="a long target"),
        pytest.param(b"CCOB" + REST, id="unknown version"),
        pytest.param(compressed(BUNDLE)[:6] + REST, id="unknown method"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UnreadableError):
        codes(str(library(tmp_path / "a.so", content)))


def test_which_code_an_mi250x_runs() -> None:
    runs = [Code("gfx90a"), Code("gfx90a", ("sramecc+", "xnack-")), Code("amdgcnspirv")]
    others = [Code("gfx90a", ("xnack+",)), Code("gfx90a", ("sramecc-",)), Code("gfx908")]
    others += [Code("gfx9-generic"), Code("gfx9-4-generic")]
    assert [code for code in (*runs, *others) if code.runs_on("gfx90a")] == runs
