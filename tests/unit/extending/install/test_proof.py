"""Installed files are compared with the wheels that they come from."""

import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lumicontainer.errors import (
    LockError,
    SpaceError,
    StepError,
)
from lumicontainer.extending import facts, image_state
from lumicontainer.extending.install import proof
from lumicontainer.extending.install.bounds import require_room
from lumicontainer.system import budget
from lumicontainer.system.files import foreign

from ....faults import hostile

ZEROS = "0" * 64
HASHES = f'hashes = {{ sha256 = "{ZEROS}" }}'


def wheels(*names: str) -> str:
    urls = ", ".join(f'{{ url = "https://x.example/{name}.whl", {HASHES} }}' for name in names)
    return f"wheels = [{urls}]"


class Installed:
    """A wheel, and the folder into which it was unpacked."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.wheel, self.place = hostile.write_wheel(folder, "a", files), folder / "place"
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.place)

    def compare(self) -> None:
        """Compare the installed files with the wheel."""
        proof.require_same(self.place, foreign.regular_files(self.place), [self.wheel])


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    entry = "[console_scripts]\nrun = a:main\n"
    return Installed(tmp_path, {"a/b.py": "A = 1\n", "a-1.0.dist-info/entry_points.txt": entry})


def test_installed_files_come_from_the_wheel_or_from_installers(
    installed: Installed,
) -> None:
    installed.compare()
    (installed.place / "bin").mkdir()
    (installed.place / "a/__pycache__").mkdir()
    for name in ("bin/run", "a/__pycache__/b.cpython-311.pyc", "a-1.0.dist-info/INSTALLER"):
        (installed.place / name).write_text("made")
    (installed.place / "a-1.0.dist-info/RECORD").write_text("written again")
    installed.compare()


OTHERS = ("a/c.py", "sitecustomize.py", "bin/walk", "a/__pycache__/c.cpython-311.pyc")


@pytest.mark.parametrize("name", [*OTHERS, "b-1.0.dist-info/INSTALLER", "evil.pth"])
def test_a_file_that_no_wheel_has_is_refused(installed: Installed, name: str) -> None:
    (installed.place / name).parent.mkdir(exist_ok=True)
    (installed.place / name).write_text("")
    with pytest.raises(StepError, match=r"is of no package"):
        installed.compare()


def test_a_changed_or_missing_file_is_refused(installed: Installed) -> None:
    module = installed.place / "a/b.py"
    module.write_text("A = 2\n")
    with pytest.raises(StepError, match=r"'a/b.py' differs from a-1.0-py3-none-any.whl"):
        installed.compare()
    module.unlink()
    with pytest.raises(StepError, match=r"'a/b.py' of a-1.0-py3-none-any.whl is missing"):
        installed.compare()


def test_a_wheel_whose_list_is_wrong_counts_by_its_content(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel, "a") as archive:
        archive.writestr("a/more.py", "M = 1\n")
    (installed.place / "a/more.py").write_text("M = 1\n")
    installed.compare()


def test_what_is_no_wheel_is_refused(installed: Installed) -> None:
    installed.wheel.write_bytes(installed.wheel.read_bytes()[:100])
    with pytest.raises(StepError, match="cannot read the wheel"):
        installed.compare()


def with_member(wheel: Path, method: int, change: Callable[[bytearray, int], None]) -> None:
    """Add a file to a wheel, compressed by a method, and change its row of the directory."""
    with zipfile.ZipFile(wheel, "a", method) as archive:
        archive.writestr("a/more.py", "M = 1\n" * 99)
    content = bytearray(wheel.read_bytes())
    change(content, content.rindex(b"PK\x01\x02"))
    wheel.write_bytes(content)


def state_4_gib(content: bytearray, row: int) -> None:
    content[row + 24 : row + 28] = (0xFFFFFFF0).to_bytes(4, "little")


def state_as_many_packed(content: bytearray, row: int) -> None:
    content[row + 20 : row + 24] = len(content).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("method", "change", "why"),
    [
        (zipfile.ZIP_LZMA, lambda *_: None, "'a/more.py' is compressed by method 14"),
        (zipfile.ZIP_DEFLATED, state_as_many_packed, "its files share bytes"),
        (zipfile.ZIP_DEFLATED, state_4_gib, "a-1.0-py3-none-any.whl unpacks to 6 files of 4.0 GiB"),
    ],
    ids=["another compression", "members that overlap", "a bomb"],
)
def test_a_wheel_that_is_made_to_fill_a_disk_is_refused_before_it_is_unpacked(
    installed: Installed,
    monkeypatch: pytest.MonkeyPatch,
    method: int,
    change: Callable[[bytearray, int], None],
    why: str,
) -> None:
    monkeypatch.setattr(budget, "UNPACKED", 1 << 30)
    require_room([installed.wheel], installed.place)
    with_member(installed.wheel, method, change)
    with pytest.raises(StepError, match=re.escape(why)):
        require_room([installed.wheel], installed.place)


def test_the_list_of_a_wheel_is_not_read_if_it_is_too_large(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lumicontainer.system.files.wheels._LARGEST_LIST", 400)
    with zipfile.ZipFile(installed.wheel, "a") as archive:
        archive.writestr("a/" + "x" * 900, "")
    with pytest.raises(StepError, match=r"its list of files has \d+ bytes"):
        require_room([installed.wheel], installed.place)


def test_wheels_that_find_no_space_are_not_unpacked(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    with_member(installed.wheel, zipfile.ZIP_DEFLATED, state_4_gib)
    with pytest.raises(SpaceError, match="not enough space for the packages"):
        require_room([installed.wheel], installed.place)


def test_a_list_that_no_reader_can_unpack_is_named(installed: Installed) -> None:
    damage = b"\x09\x04\x05\x00\xff"
    with zipfile.ZipFile(installed.wheel, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a-1.0.dist-info/RECORD", "x")
    content = installed.wheel.read_bytes()
    at = content.index(b"\x09\x04\x05\x00")
    installed.wheel.write_bytes(content[:at] + damage + content[at + len(damage) :])
    with pytest.raises(StepError, match="cannot read the wheel"):
        installed.compare()


def test_notes_of_uv_are_in_no_extension(installed: Installed) -> None:
    notes = installed.place / "a-1.0.dist-info"
    for path in (installed.place / ".lock", notes / "uv_cache.json"):
        path.write_text("")
    with (notes / "RECORD").open("a") as record:
        record.write("a-1.0.dist-info/uv_cache.json,sha256=x,0\n")
    installed.compare()
    proof.remove_notes_of_uv(installed.place, foreign.regular_files(installed.place))
    left = foreign.regular_files(installed.place)
    assert not [path for path in left if "uv_cache" in path or path == ".lock"]
    assert "uv_cache" not in (notes / "RECORD").read_text()
    assert "a/b.py" in (notes / "RECORD").read_text()


def test_an_image_that_is_replaced_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, other = tmp_path / "mine.sif", tmp_path / "other.sif"
    image.write_text("an image")
    monkeypatch.setattr(image_state, "read_facts", lambda _: facts.Facts("3.11", {}))
    before = image_state.read_image_state(image, image_state.look_at_image(image))
    before.require_same()
    shutil.copy2(image, other)
    other.replace(image)
    with pytest.raises(LockError, match="the image was replaced meanwhile"):
        before.require_same()
