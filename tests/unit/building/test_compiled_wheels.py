"""A compiled wheel is searched for secrets as a whole, or refused."""

import os
import re
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lumicontainer.building.secrets import leaks
from lumicontainer.errors import StepError
from lumicontainer.system import budget
from lumicontainer.system.terminal import masking

SECRETS = (b"canary-5e3f9b1c77d2",)
NAME = "x-1-py3-none-any.whl"
ROW, HEADER = b"PK\x01\x02", b"PK\x03\x04"
"""Where a member's row of the directory begins, and its own header (APPNOTE.TXT, 4.3)."""


@pytest.fixture(autouse=True)
def hidden() -> Iterator[None]:
    masking.hide(SECRETS)
    yield
    masking._hidden.clear()


def test_a_wheel_names_its_files_that_hold_a_secret_or_are_called_so(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    canary = SECRETS[0].decode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/clean.py", "pass\n")
        archive.writestr("x/token.py", f"token = '{canary}'\n")
        archive.writestr(f"x/{canary}.py", "pass\n")
    assert leaks(wheel) == ["x/token.py", f"x/{canary}.py"]
    called = wheel.rename(tmp_path / f"x-1+{canary}-py3-none-any.whl")
    assert called.name in leaks(called)
    masking._hidden.clear()
    assert leaks(called) == []


def test_each_file_of_a_wheel_is_searched_if_two_have_one_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/token.py", SECRETS[0])
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x/token.py", "pass\n")
    assert leaks(tmp_path / NAME) == ["x/token.py"]


@pytest.mark.slow
def test_a_large_file_of_a_wheel_is_searched_in_pieces(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.seek(masking._PIECE * 16 - 5)
        file.write(SECRETS[0])
    with zipfile.ZipFile(tmp_path / NAME, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "large", "large")
    tracemalloc.start()
    try:
        assert leaks(tmp_path / NAME) == ["large"]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < masking._PIECE * 8


def compress_by_method_99(content: bytearray) -> None:
    at = content.index(ROW)
    content[at + 10 : at + 12] = (99).to_bytes(2, "little")


def encrypt(content: bytearray) -> None:
    content[content.index(ROW) + 8] |= 1
    content[content.index(HEADER) + 6] |= 1


def break_deflate(content: bytearray) -> None:
    at = content.index(b"x/token.py") + len("x/token.py")
    content[at : at + 4] = b"\xff" * 4


def change_the_sum(content: bytearray) -> None:
    content[content.index(ROW) + 16] ^= 1


def state_512_mib(content: bytearray) -> None:
    at = content.index(ROW)
    content[at + 24 : at + 28] = (1 << 29).to_bytes(4, "little")


def span_two_disks(content: bytearray) -> None:
    at = content.index(b"PK\x05\x06")
    content[at:at] = b"PK\x06\x07" + bytes(12) + (2).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (compress_by_method_99, "'x/token.py' is compressed by method 99, not by deflate"),
        (encrypt, "is encrypted, password required"),
        (break_deflate, "invalid block type"),
        (change_the_sum, "Bad CRC-32 for file 'x/token.py'"),
        (state_512_mib, "it unpacks to 512.0 MiB"),
        (span_two_disks, "span multiple disks"),
        (bytearray.clear, "File is not a zip file"),
    ],
    ids=[
        *("another compression", "a password", "broken deflate", "another sum", "a bomb"),
        *("two disks", "an empty file"),
    ],
)
def test_a_wheel_that_cannot_be_searched_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytearray], None],
    why: str,
) -> None:
    monkeypatch.setattr(budget, "UNPACKED", 1 << 28)
    with zipfile.ZipFile(tmp_path / NAME, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/token.py", b"a" * 99 + os.urandom(99))
    assert leaks(tmp_path / NAME) == []
    content = bytearray((tmp_path / NAME).read_bytes())
    change(content)
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(StepError, match=re.escape(why)):
        leaks(tmp_path / NAME)
