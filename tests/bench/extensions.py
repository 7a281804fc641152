"""Measure an extension beside a folder into which uv installs the same packages."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from table import LUMICONTAINER, row, seconds, taken

from lumicontainer.extending.extension import lock_path
from lumicontainer.host.uv import find_uv

PACKAGES = (
    *("matplotlib", "tiktoken", "optuna", "h5py", "numba", "seaborn", "nltk", "tabulate"),
    "zstandard",
)
"""With what they need they are 20 packages that the image of the first recipe does not have."""
PROGRAM = f"import {', '.join(PACKAGES)}"
ENGINE = shutil.which("apptainer") or "singularity"
RUNS = 3


def extension(image: Path, folder: Path) -> None:
    """Measure the time to make one, its files, and the start of a program; the cache is warm."""
    file, plain = folder / "mine.sqsh", folder / "plain"
    make = [*LUMICONTAINER, "extend", image, *PACKAGES, "-o", file, "-q"]
    seconds(make)  # It downloads.
    install = install_words(plain, lock_path(file))
    cache = {"env": {**os.environ, "UV_CACHE_DIR": str(folder / "uv")}}
    taken(install, **cache)
    times: list[Sequence[float]] = []
    for _ in range(RUNS):
        file.unlink()
        shutil.rmtree(plain, ignore_errors=True)
        times.append((*taken(make), *taken(install, **cache)))
    took, worked, other, others = map(statistics.median, zip(*times, strict=True))
    seen = f"{took:.1f} s against {other:.1f} s: {took / other:.1f} times"
    row("extension of 20 packages, uv's same", seen, "<= twice", holds=took <= 2 * other)
    seen = f"{worked:.1f} s against {others:.1f} s: {worked / others:.1f} times"
    row("  processor time", seen, "<= twice", holds=worked <= 2 * others)
    row("  files on the file system", f"2 against {sum(1 for _ in plain.rglob('*'))}")
    mounted = [*LUMICONTAINER, "run", "--with", file, image, "--", "python3", "-c", PROGRAM]
    bound = [ENGINE, "-s", "exec", "--userns", "--bind", plain, "--env", f"PYTHONPATH={plain}"]
    bound += [image, "python3", "-c", PROGRAM]
    for named, cold in (("warm", False), ("cold", True)):
        ours = _started(mounted, [file] if cold else ())
        theirs = _started(bound, plain.rglob("*") if cold else ())
        row(f"  start and imports, {named}", f"{ours:.1f} s against {theirs:.1f} s")


def install_words(target: Path, lock: Path) -> list[object]:
    """Return the command by which uv installs what a lock names into a folder."""
    words = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--compile-bytecode"]
    return [*words, "--target", target, "--requirement", lock]


def _started(command: Sequence[object], forgotten: Iterable[Path]) -> float:
    """Return the median time of a command; the kernel forgets files before each run."""
    paths, times = [path for path in forgotten if path.is_file()], []
    for _ in range(RUNS):
        for path in paths:
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        times.append(seconds(command))
    return statistics.median(times)
