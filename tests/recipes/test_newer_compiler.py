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
    folder = tmp_path_factory.mktemp("newer")
    for name in ("state/lists/partial", "cache/archives/partial", "root/usr"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "list").write_text(f"deb {debian_mirror('trixie')} trixie main\n")
    settings = {
        "Dir::Etc::SourceList": folder / "list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items())]
    install = ["install", "--download-only", "--yes", "--no-install-recommends", "g++"]
    for words in (["update"], install):
        subprocess.run([*apt, *words], check=True)
    root = folder / "root"
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for package in (folder / "cache/archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
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
