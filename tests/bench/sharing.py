"""Measure push and pull beside Apptainer's, and the bytes that they cost at a real registry."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rivals import start_engine
from table import LUMICONTAINER, row, seconds, taken

from lumicontainer.image import digests, sif
from lumicontainer.image.image_copy import ImageCopy
from lumicontainer.image.inspect import metadata_bytes
from lumicontainer.image.squashfs import form_of, pack_as_root
from lumicontainer.system.terminal.forms import Form
from lumicontainer.system.terminal.progress import Progress

ENGINE = shutil.which("apptainer") or "singularity"
LAYER, FILES, REPLACED = 20, 1 << 20, 4
"""Files of a changed layer, the bytes of each, and how many files below it a recipe replaces."""
_WRITTEN = re.compile(r"http\.response\.written=(\d+)")


class Registry:
    """Count the bytes that a docker-registry in a folder stores and sends."""

    def __init__(self, folder: Path, host: str) -> None:
        self.folder, self.host = folder, host

    def stored(self) -> int:
        """Return the bytes of all blobs."""
        return sum(path.stat().st_size for path in (self.folder / "images").rglob("data"))

    def sent(self) -> int:
        """Return the bytes of all answers."""
        return sum(map(int, _WRITTEN.findall((self.folder / "log").read_text())))


@contextmanager
def serving(folder: Path) -> Iterator[Registry]:
    """Run Debian's docker-registry on loopback."""
    folder.mkdir()
    settings, log = folder / "settings.yaml", folder / "log"
    storage = f"storage: {{filesystem: {{rootdirectory: {folder / 'images'}}}}}\n"
    settings.write_text(f"version: 0.1\n{storage}http: {{addr: '127.0.0.1:0'}}\n")
    with log.open("w") as file:
        command = ["docker-registry", "serve", str(settings)]
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        while not (match := re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text())):
            if server.poll() is not None:
                sys.exit(log.read_text())
            time.sleep(0.05)
        yield Registry(folder, match[1])
    finally:
        server.terminate()
        server.wait()


def sharing(image: Path, folder: Path) -> None:
    """Measure the first push and pull, and those after a change."""
    changed = {n: _with_layer(image, folder / f"changed-{n}.sif", n) for n in (1, 2)}
    other = _with_layer(image, folder / "other.sif", 3, replaced=REPLACED)
    with serving(folder / "registry") as registry:
        ours, theirs = f"oci://{registry.host}/ours", f"oras://{registry.host}/theirs:1"
        _first(changed[1], folder, ours, theirs)
        _copied_by_skopeo(registry.host, folder)
        _carried_by_docker(registry.host, changed[1])
        most = LAYER * FILES + image.stat().st_size // 100 + (2 << 20)
        _again(registry, changed[2], f"{ours}:2", "a changed last layer", most)
        _again(registry, other, f"{ours}:3", f"a recipe that replaces {REPLACED} files", most)
        before, old = registry.sent(), folder / "pulled.sif"
        seconds([*LUMICONTAINER, "pull", f"{ours}:2", "-o", old, "-q"])
        fetched = registry.sent() - before
        row("  pulled again onto the old image", _mb(fetched), _limit(most), holds=fetched <= most)
    took, busy = taken([*LUMICONTAINER, "diff", changed[1], other])
    seen = f"{took:.1f} s, {busy:.1f} s of a processor"
    row("diff of two images", seen, "<= 2 s", holds=took <= 2)


def _first(image: Path, folder: Path, ours: str, theirs: str) -> None:
    _beside(
        "push",
        [*LUMICONTAINER, "push", image, f"{ours}:1", "-q"],
        [ENGINE, "-s", "push", "-U", "--no-https", image, theirs],
    )
    words = ["pull", "--disable-cache", "--no-https", folder / "theirs.sif", theirs]
    _beside(
        "pull",
        [*LUMICONTAINER, "pull", f"{ours}:1", "-o", folder / "pulled.sif", "-q"],
        [ENGINE, "-s", *words],
    )


def _copied_by_skopeo(host: str, folder: Path) -> None:
    """Fetch the pushed image and send it again, as ``skopeo copy`` does."""
    copy, plain = ["skopeo", "copy", "-q"], "--{}-tls-verify=false"
    fetched = f"dir:{folder / 'skopeo'}"
    pull = seconds([*copy, plain.format("src"), f"docker://{host}/ours:1", fetched])
    push = seconds([*copy, plain.format("dest"), fetched, f"docker://{host}/skopeo:1"])
    row("  skopeo copy of the same blobs", f"push {push:.1f} s, pull {pull:.1f} s")
    shutil.rmtree(folder / "skopeo")


def _carried_by_docker(host: str, image: Path) -> None:
    """Send the image as an ordinary OCI image, and let a Docker engine pull it."""
    push = seconds([*LUMICONTAINER, "push", "--format", "oci", image, f"oci://{host}/oci:1", "-q"])
    environment = {**os.environ, **start_engine()}
    pull = seconds(["docker", "pull", "-q", f"{host}/oci:1"], env=environment)
    row("  an ordinary OCI image", f"push {push:.1f} s, docker pull {pull:.1f} s")
    seconds(["docker", "rmi", f"{host}/oci:1"], env=environment)


def _beside(verb: str, ours: Sequence[object], theirs: Sequence[object]) -> None:
    """Compare two commands; the processor time of the registry is in neither."""
    (own, busy), (other, rival) = taken(ours), taken(theirs)
    seen = f"{own:.1f} s against {other:.1f} s"
    row(f"first {verb}, apptainer {verb} oras://", seen, "<= 1 times", holds=own <= other)
    row("  of these, processor time", f"{busy:.1f} s against {rival:.1f} s")


def _again(registry: Registry, image: Path, name: str, what: str, most: int) -> None:
    before = registry.stored()
    seconds([*LUMICONTAINER, "push", image, name, "-q"])
    sent = registry.stored() - before
    row(f"  pushed after {what}", _mb(sent), _limit(most), holds=sent <= most)


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _limit(most: int) -> str:
    return f"<= {_mb(most)}: the layer, 1 %, 2 MB"


def _with_layer(image: Path, target: Path, seed: int, replaced: int = 0) -> Path:
    """Write an image with one more layer of random files, some in place of files below it."""
    chance, tree = random.Random(seed), target.with_suffix(".tree")
    names = [f"opt/bench/{number}" for number in range(LAYER - (1 if replaced else 0))]
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(chance.randbytes(FILES))
    command = ["unsquashfs", "-l", "-d", "", "-offset", str(sif.root(image).offset), str(image)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    below = sorted(each.lstrip("/") for each in listed if each.endswith(".py"))
    for name in chance.sample(below, replaced):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(chance.randbytes(FILES // REPLACED))
        names.append(name)
    layer = target.with_suffix(".sqsh")
    pack_as_root(tree, layer, *form_of(image))
    target.touch()
    plan = sif.layout("", metadata_bytes(image) or b"{}")
    with ImageCopy(image, target, Progress(Form(sys.stderr))) as copy:
        copy.begin(plan, [f"/{name}" for name in names])
        copy.finish(layer)
    shutil.rmtree(tree)
    assert digests.check(target).state == digests.WHOLE
    return target
