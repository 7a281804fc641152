"""The content of an image that was built elsewhere is read from its own files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.image import sif, squashfs
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.survey import Survey, _surveyed, survey, survey_tree

from ..cpu import within

SITE = "opt/venv/lib/python3.12/site-packages"
LUMI = {
    "usr/bin/python3.12": "",
    f"{SITE}/torch-2.9.1+rocm6.4.dist-info/METADATA": "",
    f"{SITE}/torchvision-0.24.1+rocm6.4.dist-info/METADATA": "",
    f"{SITE}/flash_attn-2.8.3.dist-info/METADATA": "",
    "usr/lib/python3/dist-packages/mpi4py-3.1.5.dist-info/METADATA": "",
    "opt/rocm-6.4.4/.info/version": "6.4.4-129\n",
    "usr/lib/pkgconfig/libfabric.pc": "prefix=/usr\nName: libfabric\nVersion: 2.1.0\n",
    "usr/lib/librccl-net.so": "",
    "var/lib/dpkg/status": (
        "Package: libc-bin\nVersion: 2.1-9\n\n"
        "Package: libc6\nStatus: install ok installed\nDepends: x\n y\nVersion: 2.39-0ubuntu8.6\n\n"
    ),
}
"""The files of an image as LUMI's AI Factory makes them, as far as they are read."""


def image_of(folder: Path, files: dict[str, str]) -> Path:
    """Write an image of files."""
    for name, text in files.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    image = folder / "theirs.sif"
    layout = sif.layout("", {"data": {"attributes": {}}, "type": "container"})
    image.touch()
    packed = folder / "packed"
    command = squashfs.squash_command(folder / "tree", packed)
    subprocess.run(command, check=True, capture_output=True)
    squashfs.write_image([Source(packed)], image, layout)
    return image


@pytest.mark.slow
def test_an_image_of_lumi_s_is_read(tmp_path: Path) -> None:
    assert survey(image_of(tmp_path, LUMI)) == Survey(
        provides={
            "flash-attention": "2.8.3",
            "glibc": "2.39",
            "libfabric": "2.1.0",
            "python": "3.12",
            "pytorch": "2.9.1+rocm6.4",
            "rocm": "6.4.4",
        },
        path=("/opt/venv/bin",),
        plugin="/usr/lib/librccl-net.so",
    )


MPICH = "opt/venv/lib/python3.11/site-packages/mpich-4.3.2.dist-info/METADATA"
DEBIAN = "Package: libfabric1\nVersion: 1.17.0-3\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "provides", "path"),
    [
        (
            {MPICH: "", "var/lib/dpkg/status": DEBIAN},
            {"libfabric": "1.17.0", "mpich": "4.3.2", "python": "3.11"},
            ("/opt/venv/bin",),
        ),
        ({"etc/passwd": ""}, {}, ()),
        ({"usr/bin/python3.11": "", "opt/rocm/.info/version": "none\n"}, {"python": "3.11"}, ()),
        ({"a/lib/python3.9/site-packages/torch-$(id).dist-info/x": ""}, {}, ()),
    ],
    ids=["wheels and Debian's packages", "nothing", "no version", "code in a version"],
)
def test_versions_are_what_files_say_and_nothing_else(
    tmp_path: Path, files: dict[str, str], provides: dict[str, str], path: tuple[str, ...]
) -> None:
    assert survey(image_of(tmp_path, files)) == Survey(provides, path, "")


def test_a_list_of_debian_packages_is_read_in_linear_time() -> None:
    text = "Package: libc6\n" * 100_000
    with within(5):
        assert _surveyed(["/var/lib/dpkg/status"], lambda _: text).provides == {}


def test_a_version_has_an_end() -> None:
    text = f"Package: libc6\nVersion: {'1' * 1_000_000}\n"
    versions = _surveyed(["/var/lib/dpkg/status"], lambda _: text).provides
    assert len(versions["glibc"]) <= 100


def test_some_files_of_an_image_are_read_however_many_there_are() -> None:
    read: list[str] = []
    names = [f"/opt/{n}/pkgconfig/mpich.pc" for n in range(1000)]
    assert _surveyed(names, lambda name: read.append(name) or "Version: 4.3\n").provides
    assert len(read) < 100


STATUS = "var/lib/dpkg/status"


def tree_of(folder: Path, make: Callable[[Path], object]) -> Path:
    """Make a tree with a version of ROCm, and ``make`` what is where Debian's list belongs."""
    tree = folder / "tree"
    for name in ("opt/rocm/.info/version", STATUS):
        (tree / name).parent.mkdir(parents=True)
    (tree / "opt/rocm/.info/version").write_text("6.4.4\n")
    make(tree / STATUS)
    return tree


@pytest.mark.slow
def test_a_tree_holds_what_its_image_does(tmp_path: Path) -> None:
    """A build compares it with what the layer of its base states."""
    image = image_of(tmp_path, LUMI)
    assert survey_tree(tmp_path / "tree") == survey(image)


def link_to_another_list(path: Path) -> None:
    path.with_name("list").write_text(DEBIAN)
    path.symlink_to("list")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("status"),
        lambda path: path.symlink_to("/etc/passwd"),
        link_to_another_list,
        os.mkfifo,
    ],
    ids=["a link to itself", "a link out of the tree", "a link to a file", "a pipe"],
)
def test_what_is_no_file_of_a_tree_has_no_versions(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    assert survey_tree(tree_of(tmp_path, make)).provides == {"rocm": "6.4.4"}


def test_a_list_of_packages_without_end_is_refused(tmp_path: Path) -> None:
    def write_1_tib(path: Path) -> None:
        path.touch()
        os.truncate(path, 1 << 40)

    with pytest.raises(InputError, match="larger than 67108864 bytes") as refused:
        survey_tree(tree_of(tmp_path, write_1_tib))
    assert refused.value.problems[0].where == "/var/lib/dpkg/status"
