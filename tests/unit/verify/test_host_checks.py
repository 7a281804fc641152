"""Checks of an image that the host makes: each holds for a good image, and fails for a bad one."""

import struct
import subprocess
from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.image import sif
from lumicontainer.inside.verify.outcome import Outcome
from lumicontainer.verify import host_checks
from lumicontainer.verify.host_checks import Request

from ..host.test_binds import Site, site

pytestmark = pytest.mark.slow

__all__ = ("site",)

KEY = {"org.lumicontainer.key": "f00d"}


def made(folder: Path, labels: dict[str, str] = KEY) -> Path:
    """Make an image."""
    tree, packed, path = folder / "tree", folder / "packed", folder / "x.sif"
    tree.mkdir()
    (tree / "file").write_bytes(bytes(range(256)) * 99)
    subprocess.run(["mksquashfs", tree, packed, "-quiet", "-no-progress"], check=True)
    payload = packed.read_bytes()
    layout = sif.layout("Bootstrap: x\n", {"data": {"attributes": {"labels": labels}}})
    with path.open("wb") as file:
        file.seek(layout.offset)
        file.write(payload)
    sif.complete(path, layout, sif.hash_root(path, layout).finish(len(payload)))
    return path


def outcome(name: str, image: Path) -> Outcome:
    return host_checks.CHECKS[name].make(Request(image, open_catalog()))


def test_a_whole_image_is_whole(tmp_path: Path) -> None:
    came = outcome("whole", made(tmp_path))
    assert came.state == "passed"
    assert came.output.startswith("1 file system; ")
    assert "match their digests" in came.output


def test_an_image_that_is_cut_short_is_not(tmp_path: Path) -> None:
    path = made(tmp_path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    came = outcome("whole", path)
    assert came.state == "failed"
    assert "it is cut short: lumicontainer-digests.json ends after" in came.reason


@pytest.mark.parametrize(
    ("at", "content", "words"),
    [(0, b"junk", "there is no squashfs"), (40, struct.pack("<Q", 1 << 40), "1099511627776 bytes")],
)
def test_a_bad_file_system_is_reported(tmp_path: Path, at: int, content: bytes, words: str) -> None:
    path = made(tmp_path)
    place = sif.root(path).offset
    with path.open("r+b") as file:
        file.seek(place + at)
        file.write(content)
    came = outcome("whole", path)
    assert came.state == "failed"
    assert f"at byte {place} " in came.reason
    assert words in came.reason


@pytest.mark.parametrize(
    ("labels", "state", "words"),
    [
        (KEY, "passed", ""),
        ({"org.label-schema.build-date": "x"}, "skipped", "a plain engine built it"),
        ({"title": "x"}, "failed", "it has no label org.lumicontainer.key"),
    ],
)
def test_an_image_without_a_key_says_nothing_of_its_inputs(
    tmp_path: Path, labels: dict[str, str], state: str, words: str
) -> None:
    came = outcome("key", made(tmp_path, labels))
    assert came.state == state
    assert words in came.reason


def request(site: Site, host_libraries: list[dict[str, str]]) -> Request:
    catalog = open_catalog(site.folder / "own")
    return Request(site.image(host_libraries=host_libraries), catalog, root=site.host.path)


def test_libraries_of_another_host_are_judged(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{site.folder / 'tools'}:/usr/bin:/bin")
    subject = request(site, [{"path": "/lib/libtop.so.1", "reason": "the driver's own"}])
    came = host_checks.libraries(subject)
    assert (came.state, came.reason) == ("passed", "")
    assert "libbelow.so.1: libtop.so.1 needs it, and the image has none" in came.output

    (site.host.path / "below/libbelow.so.1").unlink()
    came = host_checks.libraries(subject)
    assert came.state == "failed"
    assert "neither the host nor the image has libbelow.so.1" in came.reason
    assert "libtop.so.1 of the host needs it" in came.reason


def test_an_image_that_takes_nothing_of_its_host_is_not_judged(site: Site) -> None:
    assert host_checks.libraries(request(site, [])).state == "skipped"
