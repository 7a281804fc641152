"""Wheels are found for the Python and the glibc of an image; uv and pip find the same."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.host.uv import find_uv, write_stand_in
from lumicontainer.pinning import uv
from lumicontainer.pinning.pip import Pip, read_report
from lumicontainer.pinning.wheels import Query, Target, Wheel, is_of
from lumicontainer.system.process import ProgramError

Offer = Callable[..., str]
Wheels = dict[str, Wheel]
FindWheels = Callable[..., Wheels]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Offer wheels to pip from a folder, and nothing from elsewhere."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    def write(name: str, version: str, *needs: str, tag: str = "py3-none-any") -> str:
        file = folder / f"{name}-{version}-{tag}.whl"
        notes = f"{name}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {need}" for need in needs]
        with zipfile.ZipFile(file, "w") as wheel:
            wheel.writestr(f"{notes}/METADATA", "".join(f"{line}\n" for line in lines))
            wheel.writestr(f"{notes}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            wheel.writestr(f"{notes}/RECORD", "")
        return hashlib.sha256(file.read_bytes()).hexdigest()

    return write


def offer_all(offer: Offer, *wheels: str) -> None:
    """Offer wheels that are written ``name version need``."""
    for each in wheels:
        offer(*each.split())


@pytest.fixture(params=["pip", "uv"])
def find_wheels(request: pytest.FixtureRequest) -> FindWheels:
    """Return a function that asks pip or uv for the wheels of requirements, by name."""

    def ask(*requirements: str, python: str = "3.11", glibc: str = "2.36", **more: Any) -> Wheels:
        target, query = Target(python, glibc), Query(requirements, **more)
        if request.param == "pip":
            wheels = Pip(target).wheels(query)
        else:
            program = find_uv()
            assert program is not None
            wheels = uv.wheels(program, target, query)
        return {each.name: each for each in wheels}

    return ask


def test_stand_ins_are_known_where_the_temporary_folder_is_behind_a_link(
    offer: Offer, find_wheels: FindWheels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "link"))
    offer("tool", "1.0", "lib")
    assert set(find_wheels("tool==1.0", present={"lib": "1.5"})) == {"tool"}


@pytest.mark.parametrize(
    ("libc", "tag"), [("2.36-9+deb12u10", 36), ("2.17", 17), ("", 17), ("musl", 17)]
)
def test_wheels_are_of_the_c_library_that_is_reported(libc: str, tag: int) -> None:
    assert Target("3.11", libc).platforms()[0] == f"manylinux_2_{tag}_x86_64"


def test_a_package_comes_with_all_that_it_needs_and_with_hashes(
    offer: Offer, find_wheels: FindWheels
) -> None:
    wheels = (("tool", "1.0", "lib>=1"), ("lib", "2.0", "deep"), ("deep", "0.1"))
    digests = {name: offer(name, *more) for name, *more in wheels}
    offer("lib", "1.5")
    by_name = find_wheels("tool==1.0")
    assert {name: each.sha256 for name, each in by_name.items()} == digests
    assert by_name["lib"].version == "2.0"
    assert by_name["lib"].file == "lib-2.0-py3-none-any.whl"
    assert by_name["lib"].line == f"lib==2.0 --hash=sha256:{digests['lib']}"


def test_what_the_image_has_is_not_taken_twice(offer: Offer, find_wheels: FindWheels) -> None:
    offer("tool", "1.0", "lib>=1")
    for version in ("1.5", "2.0"):
        offer("lib", version, "deep")
    for version in ("1.5", "1.5+rocm6.4"):
        assert set(find_wheels("tool==1.0", present={"lib": version})) == {"tool"}
    with pytest.raises(ProgramError):
        find_wheels("tool==1.0", present={"lib": "0.9"})


def test_what_is_taken_beside_others_is_of_their_versions(
    offer: Offer, find_wheels: FindWheels
) -> None:
    offer_all(offer, "tool 1.0 lib>=1", "lib 1.5", "lib 2.0")
    by_name = find_wheels("tool==1.0", same={"lib": "1.5", "other": "7"})
    assert {name: each.version for name, each in by_name.items()} == {"tool": "1.0", "lib": "1.5"}


@pytest.mark.parametrize(
    ("python", "glibc", "version"),
    [("3.11", "2.36", "2.0"), ("3.11", "2.39", "3.0"), ("3.12", "2.39", "4.0"), ("3.9", "", "1.0")],
)
def test_the_wheel_is_for_the_python_and_the_glibc_of_the_image(
    offer: Offer, find_wheels: FindWheels, python: str, glibc: str, version: str
) -> None:
    offer("lib", "1.0")
    offer("lib", "2.0", tag="cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64")
    offer("lib", "3.0", tag="cp311-cp311-manylinux_2_39_x86_64")
    offer("lib", "4.0", tag="cp312-cp312-manylinux_2_28_x86_64")
    offer("lib", "5.0", tag="cp311-cp311-win_amd64")
    assert find_wheels("lib", python=python, glibc=glibc)["lib"].version == version


@pytest.mark.parametrize("python", ["3.9", "3.11", "3.12", "3.13"])
def test_markers_are_judged_by_the_image_s_python(
    offer: Offer, find_wheels: FindWheels, python: str
) -> None:
    markers = (
        *("old>=1; python_version < '3.12'", "new; python_full_version >= '3.12.0'"),
        *("windows; sys_platform == 'win32'", "with-an-extra; extra == 'more'"),
    )
    offer("tool", "1.0", *markers)
    for name in ("old", "new"):
        offer(name, "1.0", f"{name}er")
        offer(f"{name}er", "1.0")
    names = {"old", "older"} if python in ("3.9", "3.11") else {"new", "newer"}
    assert set(find_wheels("tool==1.0", python=python)) == {"tool", *names}


def test_what_an_extra_needs_comes_with_it_alone(offer: Offer, find_wheels: FindWheels) -> None:
    offer("tool", "1.0", "lib[more]")
    offer("lib", "1.0", "deep; extra == 'more' and python_version >= '3.13'", "no; extra == 'no'")
    offer("deep", "1.0")
    assert set(find_wheels("tool==1.0", python="3.13")) == {"tool", "lib", "deep"}
    assert set(find_wheels("tool==1.0", python="3.12")) == {"tool", "lib"}


def test_an_extra_of_a_package_of_the_image_brings_what_it_needs(
    offer: Offer, find_wheels: FindWheels
) -> None:
    offer("tool", "1.0", "lib[more]")
    offer("lib", "1.0", "deep; extra == 'more'")
    offer("lib", "2.0", "deeper; extra == 'more'")
    offer("deep", "1.0")
    present = {"lib": "1.0"}
    assert set(find_wheels("tool==1.0", present=present)) == {"tool", "deep"}
    assert set(find_wheels("lib[more]", present=present)) == {"deep"}
    assert set(find_wheels("lib[no]", present=present)) == set()
    with pytest.raises(ProgramError):
        find_wheels("lib[more]", present={"lib": "1.0+here"})


def test_what_a_marker_wants_of_the_image_is_not_taken_again(
    offer: Offer, find_wheels: FindWheels
) -> None:
    offer("tool", "1.0", "lib; python_version >= '3.13'")
    offer("lib", "1.0")
    assert set(find_wheels("tool==1.0", python="3.13", present={"lib": "1.0"})) == {"tool"}


def test_a_file_without_sha256_in_the_index_is_asked_for_once_and_has_none(
    offer: Offer, find_wheels: FindWheels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_all(offer, "tool 1.0 lib", "lib 1.5")
    list_md5_alone(tmp_path, "lib-1.5-py3-none-any.whl", monkeypatch)
    by_name = find_wheels("tool==1.0")
    assert set(by_name) == {"tool", "lib"}
    assert by_name["tool"].sha256
    assert by_name["lib"].sha256 == ""


def list_md5_alone(place: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a wheel from those that are offered, and offer it by a page that has its MD5 sum."""
    file = (place / "wheels" / name).rename(place / name)
    digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    page = place / "index.html"
    page.write_text(f'<!DOCTYPE html><html><body><a href="{name}#md5={digest}">x</a></body></html>')
    monkeypatch.setenv("PIP_FIND_LINKS", f"{place / 'wheels'} {page}")


def test_of_two_indexes_with_one_version_the_better_file_is_taken(
    offer: Offer, find_wheels: FindWheels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = [offer("lib", "1.0", tag=f"py3-none-manylinux_2_{n}_x86_64") for n in (12, 28, 17)]
    urls = []
    for number, digest in zip((12, 28, 17), digests, strict=True):
        folder = tmp_path / str(number) / "lib"
        folder.mkdir(parents=True)
        name = f"lib-1.0-py3-none-manylinux_2_{number}_x86_64.whl"
        (tmp_path / "wheels" / name).rename(folder / name)
        link = f'<a href="{name}#sha256={digest}">{name}</a>'
        (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{link}</body></html>")
        urls.append(folder.parent.as_uri())
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", urls[0])
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", " ".join(urls[1:]))
    assert find_wheels("lib")["lib"].sha256 == digests[1]
    assert find_wheels("lib", glibc="2.17")["lib"].sha256 == digests[2]


def test_what_has_no_wheel_is_refused(offer: Offer, find_wheels: FindWheels) -> None:
    with pytest.raises(ProgramError):
        find_wheels("nothing==1.0")


def test_a_stand_in_is_of_no_public_version(tmp_path: Path) -> None:
    assert write_stand_in(tmp_path, "my-lib", "1.0") == "my-lib==1.0+in.the.image"
    assert write_stand_in(tmp_path, "torch", "2.9.1+rocm6.4") == "torch==2.9.1+rocm6.4.in.the.image"
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files[0] == "my_lib-1.0+in.the.image-py3-none-any.whl"


@pytest.mark.parametrize(
    ("archive", "sha256"),
    [
        ({"hash": "sha256=aa"}, "aa"),
        ({"hash": "sha256=bb", "hashes": {"sha256": "bb"}}, "bb"),
        ({}, ""),
    ],
    ids=["old", "new", "no hash"],
)
def test_a_report_is_read_in_its_old_and_its_new_form(archive: dict[str, Any], sha256: str) -> None:
    origin = {"url": "https://a.example/x-1%2Bcpu.whl", "archive_info": archive}
    entry = {"metadata": {"name": "x", "version": "1"}, "download_info": origin}
    (wheel,) = read_report({"install": [entry]})
    assert (wheel.name, wheel.sha256, wheel.file) == ("x", sha256, "x-1+cpu.whl")


@pytest.mark.parametrize(
    ("url", "of"),
    [
        ("https://download.pytorch.org/whl/x.whl", True),
        ("https://download-r2.pytorch.org/x.whl", True),
        ("https://files.example/x.whl", False),
        ("file:///opt/x.whl", False),
    ],
)
def test_an_index_is_known_by_its_files(url: str, of: bool) -> None:
    wheel = Wheel("x", "1", "aa", url)
    assert is_of(wheel, "https://download.pytorch.org/whl/cpu") == of
    assert not is_of(wheel, "")
