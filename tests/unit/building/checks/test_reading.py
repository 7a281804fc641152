"""The digest of the paths that a check reads changes exactly if a layer changes one of them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from lumicontainer.building.checks.reading import Reading, identify, read_packed
from lumicontainer.core.model import Check, LayerFile

from .images import At, folder, image_of, link, removed

ELF = b"\x7fELF and more"
BASE = (
    At("/usr/lib/liba.so.1", ELF),
    link("/usr/lib/liba.so", b"liba.so.1"),
    At("/opt/tool/engine", ELF),
    At("/etc/ld.so.conf", b"include /etc/ld.so.conf.d/*.conf"),
    At("/usr/lib/python3/site-packages/a.py"),
    At("/etc/ssl/own"),
    At("/opt/data/table"),
)
FILE = LayerFile("checks/a.sh", 0o644, b"true\n")
LOADER = Check("image/loader", FILE, "x", "y", reads=("/etc/ld.so.*",))
SSL = Check("image/ssl", FILE, "x", "y", reads=("/etc/ssl/*",))
ALL = Check("image/all", FILE, "x", "y")

Read = Callable[..., Reading]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that reads an image with a layer on top of the base."""

    def read(*top: At, base: Sequence[At] = BASE) -> Reading:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        files = image_of(place, [base, top])
        names = [hashlib.sha256(each.path.read_bytes()).hexdigest() for each in files.layers]
        return read_packed(identify(files, names[:-1]), [LOADER, SSL, ALL])

    return read


def changed(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    assert one.keys() == other.keys() == {"image/loader", "image/ssl"}
    return {name.partition("/")[2] for name in one if one[name] != other[name]}


@pytest.mark.parametrize(
    "top",
    [
        At("/opt/own/data"),
        At("/opt/own/model.py"),
        At("/opt/own/start.sh", b"#!/bin/sh\n", 0o755),
        folder("/opt/own/empty"),
        removed("/opt/data/table"),
        At("/opt/data/table", b"other"),
        At("/opt/data/table", mode=0o600),
    ],
)
def test_what_no_check_reads_changes_nothing(read: Read, top: At) -> None:
    assert changed(read().digests, read(top).digests) == set()


@pytest.mark.parametrize(
    "top",
    [
        At("/opt/own/libb.so.2"),
        At("/opt/own/engine", ELF),
        At("/usr/lib/liba.so.1", b"\x7fELF and other"),
        At("/usr/lib/liba.so.1", ELF, 0o600),
        At("/opt/tool/engine", b"no program"),
        At("/opt/tool"),
        At("/usr/lib/python3/site-packages/a.py", b"other"),
        At("/usr/lib/python3/site-packages/b.py"),
        At("/opt/own/a-1.0.dist-info/RECORD"),
        At("/opt/own/bin/python3", b"#!/bin/sh\n", 0o755),
        removed("/usr/lib/liba.so.1"),
        removed("/usr/lib/liba.so"),
        removed("/usr/lib"),
        removed("/opt/tool"),
        link("/usr/lib/liba.so", b"libb.so"),
        link("/opt/own/link", b"/usr/lib"),
        link("/opt/data", b"/usr"),
        folder("/usr/lib", 0o700),
        folder("/opt/own/closed", 0o700),
    ],
)
def test_every_check_reads_what_runs_it(read: Read, top: At) -> None:
    assert changed(read().digests, read(top).digests) == {"loader", "ssl"}


@pytest.mark.parametrize(
    ("top", "reader"),
    [
        (At("/etc/ssl/own", b"other"), "ssl"),
        (At("/etc/ssl/certs/a"), "ssl"),
        (removed("/etc/ssl/own"), "ssl"),
        (removed("/etc/ssl"), "ssl"),
    ],
)
def test_a_check_reads_what_it_declares(read: Read, top: At, reader: str) -> None:
    assert changed(read().digests, read(top).digests) == {reader}


@pytest.mark.parametrize("top", [At("/etc/ld.so.conf.d/own.conf"), removed("/etc/ld.so.conf")])
def test_where_the_loader_looks_is_read_by_every_check(read: Read, top: At) -> None:
    assert changed(read().digests, read(top).digests) == {"loader", "ssl"}


def test_a_layer_that_only_moves_files_in_itself_is_read_again(read: Read) -> None:
    moved = read(base=(At("/opt/new"), *BASE))
    assert changed(read().digests, moved.digests) == {"loader", "ssl"}


def test_the_records_of_an_image_are_known_by_their_content(read: Read) -> None:
    assert read().paths["/record"] == read(At("/opt/own/data")).paths["/record"]


def test_each_path_has_a_mark_that_changes_with_it(read: Read) -> None:
    one, other = read().paths, read(At("/opt/data/table", mode=0o640), At("/opt/new")).paths
    assert {path for path in other if one.get(path) != other[path]} == {
        "/opt/data/table",
        "/opt/new",
    }


def test_a_tree_without_readers_is_not_read(tmp_path: Path) -> None:
    packed = identify(image_of(tmp_path / "image", [BASE]), ["a"])
    assert read_packed(packed, [ALL]) == Reading()
