"""Measure the assembly of images beside mksquashfs, and beside a copy of the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from extensions import PACKAGES, install_words
from table import LUMICONTAINER, peak, row, seconds, times

from lumicontainer.cache.objects import LAYER
from lumicontainer.cache.store import Cache
from lumicontainer.cache.usage import uses
from lumicontainer.constants import EPOCH
from lumicontainer.extending.extension import lock_path
from lumicontainer.image import sif
from lumicontainer.image.assembly.assemble import Source, assemble_squashfs
from lumicontainer.image.squashfs import squash_command, write_image
from lumicontainer.system.files.user_cache import cache_root

RUNS = 3
LAYERS, FILES, FOLDERS = 12, 25_000, 250
"""Layers; small files of each, and the folders that hold them."""
LARGE, SMALL = 2, (100, 8000)
"""Large files of each layer, and the sizes of small ones in bytes."""
SIZE = 640 << 20
"""Bytes of a layer; random, so that they stay as many when packed."""
PROGRAMS = ("true", "import torch", "import transformers, lightning, deepspeed")
ENGINE = shutil.which("apptainer") or "singularity"
_ASSEMBLE = """
import sys
from pathlib import Path
from lumicontainer.image.assembly.assemble import Source, assemble_squashfs
*layers, target = map(Path, sys.argv[1:])
target.write_bytes(b"")
assemble_squashfs([Source(each) for each in layers], target, 0, 0)
"""


def assembly(image: Path, folder: Path) -> None:
    """Measure the assembly of an image's layers beside mksquashfs of the same tree."""
    cache = Cache(cache_root())
    (names,) = (use.objects for use in uses(cache) if use.image == str(image))
    # An image's record also names wheels, and copies of its layers in gzip.
    layers = [entry for entry in map(cache.entry, names) if entry and entry.kind == "layer"]
    sources = [Source(cache.folder(layer.name) / LAYER) for layer in layers]
    target, tree = folder / "assembled", folder / "tree"
    taken = []
    for _ in range(RUNS):
        target.write_bytes(b"")
        begin = time.monotonic()
        assemble_squashfs(sources, target, 0, EPOCH)
        taken.append(time.monotonic() - begin)
    ours = statistics.median(taken)
    row("assemble the layers", f"{ours:.1f} s", "<= 1.5 s", holds=ours <= 1.5)
    subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-d", tree, target], check=True)
    zstd, gzip = folder / "zstd", folder / "gzip"
    row("  mksquashfs, zstd", times(seconds(squash_command(tree, zstd)), ours))
    words = ["mksquashfs", tree, gzip, "-noappend", "-quiet", "-no-progress"]
    row("  mksquashfs, gzip (the engines' default)", times(seconds(words), ours))
    size, old = target.stat().st_size / 1e6, gzip.stat().st_size / 1e6
    row("packed size", f"{size:.0f} MB against {old:.0f} MB", "<= 110 %", holds=size <= 1.1 * old)
    shutil.rmtree(tree)


def starts(image: Path, folder: Path) -> None:
    """Measure programs in the image beside an image of the same tree by the engine alone, in turn.

    The other one has the engine's own form: gzip, blocks of 128 KiB.
    """
    plain, tree = folder / "plain.sif", folder / "tree"
    seconds(["unsquashfs", "-q", "-n", "-o", sif.root(image).offset, "-d", tree, image])
    seconds([ENGINE, "-s", "build", plain, tree])
    shutil.rmtree(tree)
    start = [ENGINE, "-s", "exec", "--userns"]
    for program in PROGRAMS:
        command = ["true"] if program == "true" else ["python3", "-c", program]
        taken = [[seconds([*start, each, *command]) for each in (image, plain)] for _ in range(9)]
        ours, theirs = map(statistics.median, zip(*taken, strict=True))
        seen = f"{ours:.2f} s against {theirs:.2f} s"
        row(f"{program}, plain Apptainer", seen, "<= 1.1 times", holds=ours <= 1.1 * theirs)


def large(image: Path, folder: Path) -> None:
    """Measure twelve layers with 300,000 files and 8 GB, and 20 packages in an image of 8 GB."""
    layers, target, copy = list(_layers(folder)), folder / "assembled", folder / "copy"
    command = [sys.executable, "-c", _ASSEMBLE, *layers, target]
    memory = peak(command) / 1e6
    ours = statistics.median(seconds(command) for _ in range(RUNS))
    copied = statistics.median(_copy(target, copy) for _ in range(RUNS))
    size, most = target.stat().st_size / 1e9, 1.3 * copied + 6
    seen = f"{ours:.1f} s against {copied:.1f} s"
    row(f"300,000 files, {size:.1f} GB, and cp", seen, "<= 1.3 times and 6 s", holds=ours <= most)
    row("  memory", f"{memory:.0f} MB", "<= 500 MB", holds=memory <= 500)
    target.unlink()
    extend_large(image, layers, folder)


def extend_large(image: Path, layers: Sequence[Path], folder: Path) -> None:
    """Measure ``extend --into`` for an image of 8 GB beside uv and a copy of the image."""
    big, new, copy, plain = (folder / name for name in ("big.sif", "new.sif", "copy", "plain"))
    root = sif.root(image)
    big.write_bytes(b"")
    sources = [Source(each) for each in layers]
    # The first image has zstd, and its layers of gzip are in the cache only for LUMI.
    base = folder / "base"
    seconds(["unsquashfs", "-q", "-n", "-o", root.offset, "-d", base, image])
    packed = folder / "base.squashfs"
    seconds(squash_command(base, packed, "gzip"))
    shutil.rmtree(base)
    write_image([Source(packed), *sources], big, sif.layout("", {}))
    for each in (*layers, packed):
        each.unlink()
    extend = [*LUMICONTAINER, "extend", big, *PACKAGES, "--into", new, "-q"]
    seconds([*LUMICONTAINER, "extend", big, *PACKAGES, "-o", folder / "big.sqsh", "-q"])
    install = install_words(plain, lock_path(folder / "big.sqsh"))
    cache = {"env": {**os.environ, "UV_CACHE_DIR": str(folder / "uv")}}
    seconds(install, **cache)
    taken = []
    for _ in range(RUNS):
        shutil.rmtree(plain)
        new.unlink(missing_ok=True)
        taken.append((seconds(extend), seconds(install, **cache), _copy(big, copy)))
    ours, installed, copied = map(statistics.median, zip(*taken, strict=True))
    seen = f"{ours:.1f} s against {installed:.1f} s and {copied:.1f} s"
    holds = ours <= 2 * installed + copied
    row(f"20 packages into {big.stat().st_size / 1e9:.1f} GB", seen, "<= 2 uv + cp", holds=holds)


def _copy(source: Path, target: Path) -> float:
    target.unlink(missing_ok=True)
    return seconds(["cp", "--reflink=never", source, target])


def _layers(folder: Path) -> list[Path]:
    """Write the layers, packed with gzip, into ``folder``."""
    layers = []
    for number in range(LAYERS):
        tree, layer = folder / "layer", folder / f"{number}.squashfs"
        _fill(tree / f"opt/layer{number}", random.Random(number))
        seconds(squash_command(tree, layer, "gzip"))
        shutil.rmtree(tree)
        layers.append(layer)
    return layers


def _fill(root: Path, generator: random.Random) -> None:
    left = SIZE
    for number in range(FILES):
        file = root / f"{number % FOLDERS}/{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        size = generator.randrange(*SMALL)
        file.write_bytes(generator.randbytes(size))
        left -= size
    for number in range(LARGE):
        (root / f"large{number}").write_bytes(os.urandom(left // LARGE))
