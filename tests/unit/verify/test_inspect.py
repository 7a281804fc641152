"""An image states what its layers need of the host, for whoever starts it."""

import json
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import HostError, InputError
from lumicontainer.host.binds import needs_of, recorded_binds
from lumicontainer.image import records, sif, sif_format
from lumicontainer.verify.subject import read_subject

from ...programs import run
from ..image.test_sif import image

pytestmark = pytest.mark.slow

PLATFORM = {"name": "site", "accelerator": "cpu"}
HELLO = {"recipe": "hello", "summary": "x", "platform": PLATFORM, "layers": {}, "omitted": {}}
"""The decided values that the smallest image records."""
BINDS = [{"path": "/opt/cray", "reason": "x"}, {"path": "/run/cxi", "reason": "y"}]
RECORD = {**HELLO, "binds": BINDS}


def packed(
    folder: Path, files: Mapping[str, str | bytes], metadata: Mapping[str, object] | bytes
) -> Path:
    """Write an image of one file system that holds these files."""
    tree, squashed = folder / "tree", folder / "tree.squashfs"
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(text.encode() if isinstance(text, str) else text)
    subprocess.run(["mksquashfs", tree, squashed, "-quiet", "-no-progress"], check=True)
    return image(folder / "x.sif", payload=squashed.read_bytes(), metadata=metadata)


def made(folder: Path, record: str | None) -> Path:
    """Make an image that holds a record, and no check."""
    files = {"opt/lumicontainer/checks.json": "[]"}
    if record is not None:
        files["opt/lumicontainer/resolved.json"] = record
    return packed(folder, files, {"data": {}})


def test_the_binds_of_an_image_come_from_its_record(tmp_path: Path) -> None:
    data = records.resolved(made(tmp_path, json.dumps(RECORD)))
    assert [bind.path for bind in recorded_binds(data)] == ["/opt/cray", "/run/cxi"]
    assert recorded_binds(data, "host_libraries") == ()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("{", "it is not JSON"),
        ("{}", "recipe is missing"),
        ("[" * 60_000, "it is nested too deep"),
        (json.dumps({**HELLO, "platform": None}), "platform: expected a mapping, got null"),
    ],
)
@pytest.mark.parametrize("platform", ["workstation", "lumi-g"])
def test_an_image_without_a_good_record_needs_nobody_knows_what(
    tmp_path: Path, record: str | None, words: str, platform: str
) -> None:
    path = made(tmp_path, record)
    with pytest.raises(InputError, match=re.escape(words)):
        needs_of(path, open_catalog().platform(platform))


def test_an_image_of_another_program_needs_what_the_platform_binds(tmp_path: Path) -> None:
    lumi = open_catalog().platform("lumi-g")
    needs = needs_of(made(tmp_path, None), lumi)
    known = {each.path for each in needs.absent} | {each.target for each in needs.mounts}
    assert known >= {each.path for each in lumi.binds}
    assert "another program built the image" in [each.what for each in needs.problems]


def require_unreadable(image: Path, words: str) -> None:
    for read in (records.resolved, read_subject):
        with pytest.raises(HostError, match=words):
            read(image)


def test_without_unsquashfs_no_image_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path, json.dumps(RECORD))
    monkeypatch.setenv("PATH", str(tmp_path))
    require_unreadable(path, r"(?s)cannot start unsquashfs.*lumicontainer doctor")


IGNORING = (
    "import os, signal, sys\n"
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
)


def test_a_command_notices_what_fails_though_its_parent_ignores_sigchld(tmp_path: Path) -> None:
    path = made(tmp_path, json.dumps(RECORD))
    words = ("-m", "lumicontainer", "inspect", path, "--recipe")
    usual = run([sys.executable, *words])
    assert usual.returncode != 0
    done = run([sys.executable, "-c", IGNORING, *words])
    assert (done.returncode, done.stderr) == (usual.returncode, usual.stderr)


def test_a_caller_that_ignores_sigchld_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path, json.dumps(RECORD))
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        require_unreadable(path, "SIGCHLD is ignored")
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_an_image_of_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path, json.dumps(RECORD))
    (only,) = sif.partitions(path)
    with path.open("r+b") as file:
        file.seek(only.offset + 20)
        file.write(b"\x63")
    plan = sif.layout("Bootstrap: x\n", {"data": {}})
    sif.complete(path, plan, sif.hash_root(path, plan).finish(only.size))
    require_unreadable(path, r"(?s)cannot read.*compression.*squashfs-tools 4\.5")


def test_what_a_user_laid_on_top_of_an_image_hides_no_record(tmp_path: Path) -> None:
    path = add_file_system(made(tmp_path, json.dumps(RECORD)), sif.EXT3)
    binds = recorded_binds(records.resolved(path))
    assert [bind.path for bind in binds] == ["/opt/cray", "/run/cxi"]


def test_an_image_with_layers_that_only_some_engines_read_is_refused(tmp_path: Path) -> None:
    path = add_file_system(made(tmp_path, json.dumps(RECORD)), sif.SQUASHFS)
    with pytest.raises(InputError, match="2 file systems that are squashfs, expected one"):
        records.resolved(path)


def add_file_system(path: Path, form: int) -> Path:
    """Add a file system as `apptainer overlay create` and `apptainer sif add` do."""
    rows = sif.read_objects(path)
    place = sif.align(path.stat().st_size)
    extra = struct.pack("<ii3s", form, sif_format.OVERLAY, sif_format.AMD64)
    row = sif_format.descriptor(
        len(rows) + 1, sif.PARTITION, place, 4096, name="overlay", extra=extra
    )
    with path.open("r+b") as file:
        file.truncate(place + 4096)
        file.seek(sif_format.DESCRIPTOR_OFFSET + len(rows) * sif_format.DESCRIPTOR_SIZE)
        file.write(row)
    return path
