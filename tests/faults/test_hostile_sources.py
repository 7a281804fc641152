"""The archive of a source leads out of its folder nowhere: it is built, or refused in words."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ..integration.conftest import recipes, small
from . import hostile
from .test_hostile_packages import Host

__all__ = ["recipes", "small"]


@pytest.fixture
def host(small: Path, tmp_path: Path) -> Host:
    return Host(small, tmp_path)


LINKS = {
    "an absolute link": (tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link out": (tarfile.LNKTYPE, "../../../../etc/passwd"),
    "a device": (tarfile.CHRTYPE, ""),
}


@pytest.mark.parametrize("name", LINKS)
def test_a_source_with_an_odd_member_leads_nowhere(host: Host, name: str) -> None:
    path = hostile.write_source(host.packages, host.attack)
    member = tarfile.TarInfo("evil-1.0/extra")
    member.type, member.linkname = LINKS[name]
    _add(path, {}, member)
    done = host.extend("evil")
    assert done.returncode in (0, 2, 5), done.stderr


def test_a_source_with_paths_out_of_it_writes_nowhere(host: Host) -> None:
    path = hostile.write_source(host.packages, host.attack)
    names = ["../../../canary", f"{host.victim}/canary", "evil-1.0/../../canary"]
    _add(path, dict.fromkeys(names, "x"))
    done = host.extend("evil")
    assert done.returncode in (0, 2, 5), done.stderr
    assert not [*host.folder.rglob("canary")]


def _add(path: Path, files: Mapping[str, str], *members: tarfile.TarInfo) -> None:
    """Add members to an archive; the last one of a name counts."""
    plain = io.BytesIO(gzip.decompress(path.read_bytes()))
    with tarfile.open(fileobj=plain, mode="a") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for member in members:
            archive.addfile(member)
    path.write_bytes(gzip.compress(plain.getvalue(), 1))
