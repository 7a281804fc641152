"""The packages of an image are read from the lists of dpkg and of Python's installers."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from lumicontainer.constants import HOME
from lumicontainer.image.assembly.content import Files
from lumicontainer.trust.installed import installed

SITE = "/opt/venv/lib/python3.11/site-packages"
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Source: glibc
Version: 2.36-9

Package: bash
Status: install ok installed
Architecture: amd64
Source: bash (5.2.15-2)
Version: 5.2.15-2+b13
Description: shell
 Package: not-one

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
DEP5 = "Format: https://x\nFiles: *\nLicense: GPL-3+\n text\n\nFiles: a\nLicense: MIT\n"
BASE = {
    "/var/lib/dpkg/status": STATUS,
    "/usr/lib/os-release": 'NAME="Debian"\nID=debian\nVERSION_ID="12"\n',
    "/usr/share/doc/bash/copyright": DEP5,
    "/usr/share/doc/libc6/copyright": "This is free.\nLicense: no\n",
}


class Folder(NamedTuple):
    """Stand in for the node of a folder."""

    children: list[bytes]


class Texts:
    """Stand in for the files of an image."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def read(self, path: str, most: int) -> bytes | None:
        del most
        return self.texts[path].encode() if path in self.texts else None

    def folders(self) -> Iterator[tuple[str, Folder]]:
        below: dict[str, set[bytes]] = {}
        for text in self.texts:
            rest = text
            while rest:
                rest, _, name = rest.rpartition("/")
                below.setdefault(rest, set()).add(name.encode())
        yield from ((path, Folder(sorted(names))) for path, names in below.items())


def listed(texts: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the licences of each package by its package URL."""
    files = cast(Files, Texts(texts))
    return {each.purl: each.licences for each in installed(files)}


def metadata(*lines: str) -> str:
    return "\n".join(("Metadata-Version: 2.4", "Name: Foo.Bar", "Version: 1.0", *lines, "", "text"))


def test_debian_packages_have_their_source_and_the_licences_of_machine_readable_files() -> None:
    assert listed(BASE) == {
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12&upstream=glibc": (),
        "pkg:deb/debian/bash@5.2.15-2%2Bb13?arch=amd64&distro=debian-12&upstream=bash%405.2.15-2": (
            "GPL-3+",
            "MIT",
        ),
    }


def test_an_image_without_dpkg_and_python_has_no_packages() -> None:
    assert listed({"/bin/sh": ""}) == {}


def test_licences_of_python_packages_come_from_the_expression_then_the_text() -> None:
    own = "Classifier: License :: OSI Approved :: MIT License"
    for lines, licences in (
        (["License-Expression: MIT", "License: x"], ("MIT",)),
        (["License: Apache 2.0", own], ("Apache 2.0",)),
        (["License: UNKNOWN", own], ("MIT License",)),
        (["License: Copyright\n  a whole licence\n  of lines", own], ("MIT License",)),
        ([], ()),
    ):
        packages = listed({f"{SITE}/foo_bar-1.0.dist-info/METADATA": metadata(*lines)})
        assert packages == {"pkg:pypi/foo-bar@1.0": licences}


def test_the_record_of_the_image_says_which_python_packages_it_has() -> None:
    record = json.dumps({"system": {}, "python": {"Foo_Bar": "1.0"}})
    hidden = metadata("License: x").replace("Foo.Bar", "hidden")
    texts = {
        f"{HOME}/packages.json": record,
        f"{SITE}/foo_bar-1.0.dist-info/METADATA": metadata("License: MIT"),
        f"{SITE}/hidden-1.0.dist-info/METADATA": hidden,
    }
    assert listed(texts) == {"pkg:pypi/foo-bar@1.0": ("MIT",)}


def test_packages_of_an_image_without_a_record_are_those_in_its_folders_of_packages() -> None:
    texts = {
        f"{SITE}/foo_bar-1.0.dist-info/METADATA": metadata(),
        f"{SITE}/setuptools/_vendor/x-2.dist-info/METADATA": metadata().replace("Foo.Bar", "x"),
        "/usr/lib/python3/dist-packages/old.egg-info": metadata().replace("Foo.Bar", "old"),
    }
    assert set(listed(texts)) == {"pkg:pypi/foo-bar@1.0", "pkg:pypi/old@1.0"}
