"""Two thousand stacks of layers make the trees that the kernel's overlayfs shows."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.image.assembly.assemble import Source, assemble_squashfs
from lumicontainer.image.squashfs import squash_command

from .conftest import TREES, in_namespace

STACKS, LAYERS = 500, 4
"""Stacks of one run, which lie beside each other, and layers of each."""
NAMES = ("a", "b", "c", "with space", "new\nline", "\udcff")
SIZES = (0, 1, 5, 4095, 131_072, 131_073, 300_000)
MODES = (0o644, 0o755, 0o4755, 0o600)


def fill(chance: random.Random, folder: Path, depth: int) -> list[str]:
    """Fill a folder of a layer; return the paths in it that the layer removes."""
    folder.mkdir(parents=True)
    folder.chmod(chance.choice((0o755, 0o700, 0o1777)))
    files, removed = list[Path](), list[str]()
    for name in chance.sample(NAMES, chance.randint(0, 4)):
        path = folder / name
        match chance.choice(("file", "file", "small", "folder", "folder", "link", "hard", "gone")):
            case "folder" if depth:
                removed += [f"{name}/{each}" for each in fill(chance, path, depth - 1)]
            case "link":
                path.symlink_to(chance.choice(NAMES))
            case "hard" if files:
                os.link(chance.choice(files), path)
            case "gone":
                removed.append(name)
            case kind:
                size = chance.randint(0, 400) if kind == "small" else chance.choice(SIZES)
                path.write_bytes(chance.randbytes(size // 2) + bytes(size - size // 2))
                path.chmod(chance.choice(MODES))
                files.append(path)
    return removed


def make_layers(folder: Path, seed: int) -> list[Path]:
    """Pack layers of stacks by mksquashfs, the lowest first."""
    chance, layers = random.Random(seed), []
    for number in range(LAYERS):
        tree, packed = folder / f"tree{number}", folder / f"layer{number}"
        tree.mkdir()
        removed = [
            f"{stack}/{path}"
            for stack in range(STACKS)
            for path in fill(chance, tree / f"{stack}", 2)
        ]
        pseudo = folder / f"removed{number}"
        # A line of pseudo files has no such name.
        named = (path for path in removed if "\n" not in path and "\udcff" not in path)
        rows = (f'"{path}" c 0 0 0 0 0\n' for path in named if number)
        pseudo.write_text("".join(rows))
        command = [*squash_command(tree, packed), "-all-root", "-pf", str(pseudo)]
        subprocess.run(command, check=True, capture_output=True)
        layers.append(packed)
    return layers


SHOW = """
set -e
python=$1 trees=$2 folder=$3 layers=$4
lower=
for number in $(seq 0 $((layers - 1))); do
    mkdir "$folder/mount$number"
    squashfuse "$folder/layer$number" "$folder/mount$number"
    lower=$folder/mount$number${lower:+:}$lower
done
mkdir "$folder/overlay"
mount -t overlay -o "ro,lowerdir=$lower" overlay "$folder/overlay"
"$python" "$trees" describe "$folder/overlay"
umount "$folder/overlay"
for number in $(seq 0 $((layers - 1))); do
    umount "$folder/mount$number"
done
"""
"""Mount the layers and the kernel's overlay of them, and describe what it shows."""


def rows_of(described: str) -> dict[str, list[Any]]:
    """Return mode, owner, group and content: overlays do not show what is hard-linked."""
    return {path: row[:4] for path, row in json.loads(described).items()}


@pytest.mark.parametrize("seed", range(4))
def test_an_assembled_tree_is_the_one_that_overlays_show(tmp_path: Path, seed: int) -> None:
    layers = make_layers(tmp_path, seed)
    target = tmp_path / "assembled"
    target.touch()
    assemble_squashfs([Source(layer) for layer in layers], target, 0, 0)
    places = (sys.executable, TREES, tmp_path, LAYERS)
    expected = rows_of(in_namespace("unshare", "--mount", "sh", "-c", SHOW, "sh", *places))
    in_namespace("unsquashfs", "-quiet", "-no-progress", "-dest", tmp_path / "seen", target)
    seen = rows_of(in_namespace(sys.executable, TREES, "describe", tmp_path / "seen"))
    assert len(expected) > 4 * STACKS
    assert {
        path: (expected.get(path), seen.get(path))
        for path in expected.keys() | seen.keys()
        if expected.get(path) != seen.get(path)
    } == {}
