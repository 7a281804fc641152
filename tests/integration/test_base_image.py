"""An image stands on the file of another one, with what that one sets and holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from lumicontainer.cache.objects import LAYER
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.image.sif import layout, root
from lumicontainer.image.squashfs import form_of, pack, squash_command, write_image
from lumicontainer.sandbox.tree.foreign.in_place import read_rows
from lumicontainer.sandbox.tree.index import GONE, Row

from ..conftest import CHECK
from .conftest import (
    COMPRESSIONS,
    ENGINE,
    check_output,
    digest,
    inside,
    lumicontainer,
    run,
    write_files,
)
from .test_without_namespaces import IMAGE, mirror  # noqa: F401

PASSIVE = (
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/zoneinfo",
    "usr/lib/x86_64-linux-gnu/gconv",
)
"""Folders of data that no program of the tests reads; the tree is packed eight times."""
LARGE, LITTLE = 256 << 20, 192 << 20
"""Bytes of a base, and fewer, which the programs of a build read for themselves."""
MEASURE = """
import subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(open("/proc/self/io").read())
"""
"""Run a command, and print how much it and its processes read and wrote: proc_pid_io(5)."""
SCRIPT = "set -euo pipefail\ncp /opt/greet/greeting /opt/mine || echo x >/opt/mine\n"


@pytest.fixture(scope="module")
def theirs(small: Path, recipes: Path) -> Path:
    """Build the image ``small`` once more, elsewhere."""
    path = small.with_name("theirs.sif")
    words = ("--recipes", recipes, "--output", path, "--no-verify")
    lumicontainer("build", "small", *words, code=0)
    return path


@pytest.fixture(scope="module")
def tree(theirs: Path) -> Path:
    """Unpack that image, without what is ours, and add what no image may have."""
    path = theirs.with_name("tree")
    offset = str(root(theirs).offset)
    check_output("unsquashfs", "-q", "-n", "-o", offset, "-d", path, theirs)
    for name in ("opt/lumicontainer", "opt/greet", *PASSIVE):
        shutil.rmtree(path / name)
    for name in ("lumi-entry", "lumi-verify"):
        (path / "usr/local/bin" / name).unlink()
    odd = path / "opt/odd"
    odd.mkdir()
    os.mkfifo(odd / "pipe")
    (odd / "one").write_bytes(b"x" * 200_000)
    (odd / "two").hardlink_to(odd / "one")
    odd.chmod(0o750)
    return path


def plain(tree: Path, form: str) -> Path:
    """Return an image of a tree, which the engine alone builds with options of mksquashfs."""
    image = tree.with_name(f"{form.replace(' ', '')}.sif")
    if not image.exists():
        check_output(ENGINE, "build", "--mksquashfs-args", f"-comp {form}", image, tree)
    return image


def rows_of(image: Path) -> dict[str, Row]:
    """Return the row of each path of an image, but of those that two images of ours differ in."""
    place = root(image)
    rows = read_rows(read_squashfs(image, place.offset, size=place.size))
    ours = (".singularity.d", "opt/lumicontainer", "opt/mine")
    return {path: row for path, row in rows.items() if not path.startswith(ours)}


def write(folder: Path, image: Path, sha256: str, script: str = SCRIPT) -> Path:
    """Write a recipe that stands on an image file; return its path."""
    files = {
        "mine.yaml": "summary: an image on another one\nbase: theirs\nlayers: [mine]\n",
        "layers/theirs/layer.yaml": (
            "summary: an image that was built elsewhere\n"
            f"bootstrap: {{cpu: {{agent: localimage, file: {image}, sha256: {sha256}}}}}\n"
            'provides: {python: "3.11", glibc: "2.36"}\npath: [/opt/greet/bin]\n'
        ),
        "layers/mine/layer.yaml": "summary: a file\n",
        "layers/mine/checks/mine.sh": f"{CHECK}test -s {'/opt/mine' if script else '/etc/hosts'}\n",
    }
    if script:
        files["layers/mine/install.sh"] = script
    return write_files(folder, files) / "mine.yaml"


def test_an_image_on_another_one_is_locked_built_checked_and_run(
    theirs: Path, tmp_path: Path
) -> None:
    recipe, image = write(tmp_path, theirs, digest(theirs)), tmp_path / "mine.sif"
    done = lumicontainer("lock", recipe, "--json", code=0)
    assert "1 pin, 0 not pinned" in done.stderr
    lock = tmp_path / "locks/mine.workstation.lock.yaml"
    assert json.loads(done.stdout) == {"path": str(lock), "pins": 1, "unpinned": 0}
    lumicontainer("build", recipe, "--locked", "--output", image, code=0)
    seen = inside(image, "sh", "-c", 'cat /opt/mine; echo " $GREETING_STYLE $PATH"')
    assert seen.startswith("it's $(id) `id` %post {{ x }} plain /opt/greet/bin:")


def test_a_changed_file_is_refused(theirs: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.sif"
    changed.write_bytes(theirs.read_bytes() + b"x")
    recipe = write(tmp_path, changed, digest(theirs))
    done = lumicontainer("build", recipe, cwd=tmp_path, code=6)
    assert f"expected {digest(theirs)}\n         found    {digest(changed)}" in done.stderr


def test_a_base_of_a_registry_is_read_by_its_digest_and_built(
    mirror: list[str],  # noqa: F811
    tmp_path: Path,
) -> None:
    words = ("--base-image", f"docker://{IMAGE}", *mirror)
    lumicontainer("init", "mine", *words, cwd=tmp_path, code=0)
    layer = tmp_path / "mine/layers/mine-base/layer.yaml"
    base = layer.read_text()
    name = IMAGE.partition(":")[0]
    assert re.search(rf'docker_image: "{name}@sha256:[0-9a-f]{{64}}"', base), base
    assert 'glibc: "2.36"' in base
    assert 'python: "3.11"' in base
    layer.write_text(base.replace('glibc: "2.36"', 'glibc: "2.31"'))
    # A base that is in the cache is not read.
    done = lumicontainer("build", "mine/mine.yaml", "--rebuild", *mirror, cwd=tmp_path, code=0)
    warning = "layer 'mine-base', under 'provides': glibc: 2.31 in the layer, 2.36 in the image"
    assert f"warning: {warning}\n" in done.stderr
    inside(tmp_path / "mine.sif", "mine")


def test_an_image_that_only_adds_files_is_its_base_and_they(tree: Path, tmp_path: Path) -> None:
    image, only, more = plain(tree, COMPRESSIONS[-1]), tmp_path / "only.sif", tmp_path / "more.sif"
    recipe = write(tmp_path, image, digest(image), script="")
    done = lumicontainer("build", recipe, "--output", only, code=0)
    assert "base: read files" not in done.stderr
    assert form_of(only) == form_of(image)
    # The other image is made in the tree, on the same base, which is packed again.
    image = plain(tree, "lz4 -b 1M")
    recipe = write(tmp_path, image, digest(image))
    done = lumicontainer("build", recipe, "--output", more, code=0)
    why = "its compression is lz4"
    assert f"the base is packed again, once, into the cache: {why}\n" in done.stderr
    rows = rows_of(only)
    assert rows == rows_of(more)
    assert rows["opt/odd/two"].link == "opt/odd/one"
    assert "opt/odd/pipe" not in rows


def test_a_base_that_only_gains_files_is_copied_once_without_root_namespaces_or_proot(
    base_object: Path, tmp_path: Path
) -> None:
    base, image, more = (tmp_path / name for name in ("base.sif", "only.sif", "more"))
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/large").write_bytes(os.urandom(LARGE))
    pack(squash_command(tmp_path / "tree", more), more)
    base.touch()
    write_image([Source(base_object / LAYER), Source(more)], base, layout("", {}))
    recipe = write(tmp_path, base, digest(base), script="")
    command = (sys.executable, "-m", "lumicontainer", "--verbose", "build", recipe)
    words = (*command, "--no-verify", "--output", image)
    env = {"LUMICONTAINER_CACHE": str(tmp_path / "cache")}
    done = run([sys.executable, "-c", MEASURE, *words], env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    counts = dict(line.split(": ") for line in done.stdout.splitlines() if line)
    size = base.stat().st_size
    # It is read for its own sha256, for the copy, and for the digests of the new image.
    assert int(counts["rchar"]) < 3 * size + LITTLE
    assert int(counts["wchar"]) < size + LITTLE
    _, work = re.split("base +begins", done.stderr, maxsplit=1)
    assert " exec " in work
    assert not re.search("unshare|proot|fakeroot|sudo|newuidmap", work)


REPACKED = {
    "zstd -b 128K": "its compression is zstd, and an engine reads gzip",
    "gzip -b 256K": "its blocks have 256 KiB, not 128",
}


@pytest.mark.skipif("zstd" not in COMPRESSIONS, reason="the engine makes no squashfs of zstd")
@pytest.mark.parametrize("form", REPACKED)
def test_a_base_that_an_engine_cannot_read_is_packed_again_once(
    tree: Path, tmp_path: Path, form: str
) -> None:
    image = plain(tree, form)
    recipe = write(tmp_path, image, digest(image), script="")
    place = {"envs/gzip.yaml": "summary: reads gzip\naccelerator: cpu\ncompression: gzip\n"}
    write_files(tmp_path, place)
    said = f"the base is packed again, once, into the cache: {REPACKED[form]}\n"
    words = ("build", recipe, "--platform", "gzip", "--no-verify", "--output")
    first, second = tmp_path / "first.sif", tmp_path / "second.sif"
    assert lumicontainer(*words, first, code=0).stderr.count(said) == 1
    begun = lumicontainer(*words, second, code=0).stderr
    assert not re.search("pack (again|as gzip) +begins", begun), begun
    assert form_of(first) == ("gzip", 128 << 10)
    assert digest(first) == digest(second)
    rows = rows_of(plain(tree, "gzip"))
    base_rows = {path: row for path, row in rows_of(first).items() if path in rows}
    own = ("dev/", "etc/hosts", "etc/resolv.conf", "etc/hostname", "usr/local/bin/lumi")
    assert {
        path for path, row in rows.items() if row.kind != GONE and base_rows.get(path) != row
    } <= {path for path in rows if path.startswith(own)}


def test_a_base_that_is_gone_is_named(tmp_path: Path) -> None:
    image = tmp_path / "gone.sif"
    recipe = write(tmp_path, image, "ab" * 32, script="")
    done = lumicontainer("build", recipe, cwd=tmp_path, code=3)
    assert "cannot read the base image" in done.stderr
