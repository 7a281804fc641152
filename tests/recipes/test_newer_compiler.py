"""Horovod's headers compile with the compiler of a newer Debian than this machine's."""

import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.host.site import debian_mirror

from .scripts import LAYERS
from .test_scripts_torch import pip, unpacked

HEADERS = ("common.h", "group_table.h")


@pytest.fixture(scope="session")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with g++ 14, of which nothing is configured: its programs run by chroot."""
    root = tmp_path_factory.mktemp("newer")
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    make = ["mmdebstrap", "--quiet", "--variant=extract", "--include=g++", "trixie"]
    packed = root / "packed.tar"
    subprocess.run([*make, packed, debian_mirror("trixie")], check=True)
    unpack = ["tar", "--extract", "--exclude=./dev", "--file", packed, "--directory", root]
    subprocess.run(unpack, check=True)
    return root


def compiled(root: Path, header: str) -> subprocess.CompletedProcess[str]:
    """Compile a header of Horovod alone."""
    command = ["unshare", "--map-root-user", f"--root={root}"]
    command += ["g++", "-std=c++17", "-fsyntax-only", f"/horovod-0.28.1/horovod/common/{header}"]
    environment = {"PATH": "/usr/bin:/usr/sbin", "LC_ALL": "C"}
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True)


def test_horovod_compiles_with_newer_compilers_by_its_patch(newer: Path, tmp_path: Path) -> None:
    words = ("--no-deps", "--no-binary", ":all:", "horovod==0.28.1")
    pip(Path(sys.executable), "download", "--dest", str(tmp_path), *words)
    source = unpacked(tmp_path, "horovod-0.28.1", newer)
    before = [compiled(newer, each) for each in HEADERS]
    assert "'logic_error' is not a member of 'std'" in before[0].stderr
    assert "'string' in namespace 'std'" in before[1].stderr
    patch = ["patch", "--directory", source, "--strip", "1", "--input"]
    subprocess.run([*patch, LAYERS / "horovod/gcc13.patch"], check=True)
    after = [compiled(newer, each) for each in HEADERS]
    assert [done.returncode for done in after] == [0, 0], after
