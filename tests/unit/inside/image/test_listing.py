"""The list of an image's files: how layers make it, and when a check may use it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lumicontainer.inside.image.listing import Layer, Row, dump, layers_of_root, load, merged

FOLDER, FILE = Row(stat.S_IFDIR | 0o755, 0), Row(stat.S_IFREG | 0o644, 3)
OTHER, LINK = Row(stat.S_IFREG | 0o755, 9, "", "it is empty"), Row(stat.S_IFLNK | 0o777, 1, "b")
BASE = {"a": FOLDER, "a/b": FOLDER, "a/b/c": FILE, "a/bc": FILE}
ABOVE: dict[str, tuple[Layer, Layer]] = {
    "a file is replaced": ({"a": FOLDER, "a/bc": OTHER}, {**BASE, "a/bc": OTHER}),
    "a file is removed": ({"a": FOLDER, "a/bc": None}, {"a": FOLDER, "a/b": FOLDER, "a/b/c": FILE}),
    "a folder is removed": ({"a": FOLDER, "a/b": None}, {"a": FOLDER, "a/bc": FILE}),
    "a link replaces a folder": ({"a/b": LINK}, {"a": FOLDER, "a/bc": FILE, "a/b": LINK}),
    "a folder gets a file": ({"a/b": FOLDER, "a/b/d": FILE}, {**BASE, "a/b/d": FILE}),
}


@pytest.mark.parametrize("case", ABOVE)
def test_a_layer_changes_what_is_below_it(case: str) -> None:
    layer, expected = ABOVE[case]
    assert merged([BASE, layer]) == expected


def test_a_list_survives_its_text_with_folders_first() -> None:
    layer = {"x/y": LINK, "x-y": None, "x": FOLDER, "x/z\udc80": OTHER}
    assert load(dump(layer)) == layer
    assert list(load(dump(layer))) == ["x", "x/y", "x/z\udc80", "x-y"]


SESSION = "/var/lib/apptainer/mnt/session"
IMAGE = f"{SESSION}/overlay-images/1:{SESSION}/overlay-images/0"
OWN = f"{SESSION}/overlay-lowerdir:{SESSION}/rootfs"
ROOTS = {
    "an image of three layers": (f"/ / ro - overlay overlay ro,lowerdir={IMAGE}:{OWN},x=on", 2),
    "an image of one layer": (f"/ / ro - overlay overlay ro,lowerdir={OWN}", 0),
    "an overlay that can be written to": (
        f"/ / rw - overlay overlay rw,lowerdir={IMAGE}:{OWN},upperdir=/up/upper,workdir=/up/work",
        None,
    ),
    "a folder over the image": (f"/ / ro - overlay overlay ro,lowerdir=/own:{IMAGE}:{OWN}", None),
    "a sandbox": ("/ / rw - ext4 /dev/vda rw", None),
    "a FUSE overlay": ("/ / ro - fuse.fuse-overlayfs fuse-overlayfs ro", None),
    "no root": ("/ /mnt ro - ext4 /dev/vda rw", None),
}


@pytest.mark.parametrize("case", ROOTS)
def test_the_list_counts_for_the_images_own_layers_alone(case: str, tmp_path: Path) -> None:
    line, expected = ROOTS[case]
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:1 {line}\n2 1 0:2 / /proc rw - proc proc rw\n")
    assert layers_of_root(str(table)) == expected
