"""A disk that is full, before a build or in its midst, costs neither the image nor the cache."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lumicontainer.cache.objects import SUMS
from lumicontainer.cache.store import Cache

from ...namespaces import entered, owned, prepared
from ..conftest import digest, run
from .chain import Build, Place, prove_all
from .conftest import place_in

KIB, MIB = 1 << 10, 1 << 20
LARGE = {"cache": 100 * MIB, "temporary": 230 * MIB, "images": 100 * MIB}
"""The size of the last layer; the cache knows only that it took 100 KiB."""
PLACES = ("cache", "temporary", "images")


@contextmanager
def small_disk(place: Place, folder: str, *, free: int, inodes: int = 100_000) -> Iterator[Place]:
    """Mount a small file system, which nobody else sees, over a folder with what is in it.

    ``free`` bytes and ``inodes`` are left on it. The place that is given sees it below its root.
    """
    at = place.root / folder
    paths = list(at.rglob("*"))
    taken = sum(each.lstat().st_size + 8 * KIB for each in (at, *paths))
    size = (taken + free + 4095) // 4096 * 4096
    options = f"mode=700,size={size},nr_inodes={len(paths) + inodes},{owned()}"
    setup = (
        f'cp -a "{at}" "{at}.below" && mount -t tmpfs -o {options} none "{at}" && '
        f'cp -a "{at}.below/." "{at}" && rm -r "{at}.below"'
    )
    command = [*prepared("mount", setup), "bash", "-c", "echo $$ && read -r"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        pid = int(holder.stdout.readline())
        yield replace(place, enter=tuple(entered(pid)), seen=Path(f"/proc/{pid}/root"))


@pytest.fixture(scope="module")
def built(
    base: tuple[Place, list[Build]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """Give a place in which the image stands that must not be lost."""
    with place_in(tmp_path_factory.mktemp("space"), base[0]) as place:
        unchecked = replace(place, options=("--no-verify",))
        unchecked.build()
        yield unchecked


INODES = {"cache": 2, "temporary": 6, "images": 2}
"""The build's own folder, with its lock and its logs, is made before it is refused."""


@pytest.mark.parametrize("folder", PLACES)
def test_a_build_without_space_is_refused_before_it_begins(built: Place, folder: str) -> None:
    before = digest(built.image)
    for free, why in (
        ({"free": 500 * KIB}, r"\S+ \w+, and \S+ \w+ are free"),
        ({"free": 400 * MIB, "inodes": INODES[folder]}, r"\d+ inodes, and \d are free"),
    ):
        with small_disk(built, folder, **free) as place:
            build = place.build("--set", "one.value=b", code=8)
            said = rf"where: {built.root / folder}\S*\n +why: it needs {why}"
            assert re.search(said, build.stderr), build.stderr
            assert build.steps("begin") == []
            assert digest(place.visible(built.image)) == before


REQUIRE = """
import sys
from pathlib import Path
from lumicontainer.building.disk_space import Need, require
from lumicontainer.errors import SpaceError
try:
    require([Need("the build", Path(sys.argv[1]), int(sys.argv[2]), 1, "LUMICONTAINER_TMPDIR")])
except SpaceError as error:
    sys.exit(str(error))
"""


def test_a_folder_in_memory_needs_memory_of_the_size_of_the_build(tmp_path: Path) -> None:
    """The file system itself may promise more than the memory has."""
    start = prepared("mount", f"mount -t tmpfs -o size=16T,{owned()} none {tmp_path}")
    done = run([*start, sys.executable, "-c", REQUIRE, tmp_path, 8 << 40])
    assert "it is in memory: it needs 8.0 TiB, and " in done.stderr, done.stderr
    assert "--mem, or SBATCH_MEM_PER_NODE" in done.stderr
    assert run([*start, sys.executable, "-c", REQUIRE, tmp_path, MIB]).stderr == ""


def test_a_folder_that_takes_no_byte_is_found_by_writing_one(tmp_path: Path) -> None:
    """As with a quota of a user, which the free space of a file system does not show."""
    start = ["prlimit", "--fsize=1024", "--"]
    done = run([*start, sys.executable, "-B", "-c", REQUIRE, tmp_path, 1])
    assert "error: not enough space for the build\n" in done.stderr
    assert f"where: {tmp_path}\n    why: File too large\n" in done.stderr
    assert "name another place with LUMICONTAINER_TMPDIR" in done.stderr


def test_a_prune_frees_space_on_a_disk_that_is_full_to_the_last_byte(place: Place) -> None:
    (name, *others), words = place.objects(), ["cache", "prune", "--max-size", "0"]
    with small_disk(place, "cache", free=0) as full:
        (full.visible(full.cache / "objects" / name) / SUMS).write_text("damaged")
        shell = f'! cat /dev/zero >{full.cache}/fill 2>/dev/null && "$@"'
        command = [*full.enter, "bash", "-c", shell, "bash"]
        command += [sys.executable, "-m", "lumicontainer", *words]
        done = run(command, env=full.environment)
        assert done.returncode == 0, done.stderr
        assert Cache(full.visible(full.cache)).names() == []
        assert len(re.findall("(?m)^removed ", done.stdout)) == len(others) + 2, done.stdout


SPARE = [("temporary", 20), ("temporary", 60), ("cache", 2), ("cache", 16)]
SPARE += [("images", 12), ("images", 22)]
"""The MiB that are free beyond what a build needs by what the cache knows: then not enough."""


@pytest.mark.parametrize(("folder", "spare"), SPARE)
def test_a_disk_that_fills_up_costs_neither_the_image_nor_the_cache(
    built: Place, folder: str, spare: int
) -> None:
    before, had = digest(built.image), set(prove_all(built.cache))
    packed = built.image.stat().st_size // MIB
    # The tree is taken for four times as large as its packed layers, and 64 MiB stay free.
    free = 64 + spare + {"temporary": 4 * packed, "cache": 0, "images": packed}[folder]
    with small_disk(built, folder, free=free * MIB) as place:
        large = ("--set", f"four.value={free}", "--set", f"four.size={LARGE[folder] // KIB}")
        build = place.start(*large)
        code = build.wait()
        assert build.steps("begin"), build.stderr
        assert code == 8, build.stderr[-3000:]
        assert had <= set(prove_all(place.visible(place.cache)))
        assert place.left() == []
        assert digest(place.visible(built.image)) == before
        assert f"where: {built.root / folder}" in build.stderr, build.stderr[-3000:]
        assert "is full" in build.stderr
        assert "Traceback" not in build.stderr.rpartition("error: ")[2]
    # The cache then does not know how large the layer is.
    store = Cache(built.cache)
    assert all(store.remove(each.name) for each in store.entries() if each.name not in had)


@pytest.mark.parametrize(
    ("limit", "code", "words"),
    [
        ("fsize=8192", 8, ["a file as large as the build needs", "8 KiB: ulimit -f unlimited"]),
        ("fsize=4194304", 8, ["a file as large as the build needs", "4096 KiB: ulimit -f unl"]),
        ("nofile=20", 3, ["Too many open files", "which is 20: ulimit -n 4096"]),
    ],
)
def test_a_limit_of_files_is_named_with_what_to_do(
    place: Place, limit: str, code: int, words: list[str]
) -> None:
    bounded = replace(place, enter=("prlimit", f"--{limit}", "--"))
    build = bounded.build("--set", f"one.size={10 << 10}", code=code)
    message = build.stderr.rpartition("error: ")[2]
    assert [word for word in words if word not in message] == [], build.stderr
    assert "Traceback" not in message
    assert place.left() == []
