"""A lock asks apt for versions and hashes, even if the lists of a frozen mirror have expired.

Its builds compare the hashes with the lists of that day.
"""

import hashlib
import subprocess
from pathlib import Path

from lumicontainer.core.shipped import APT_FILES
from lumicontainer.errors import DOWNLOAD_FAILED
from lumicontainer.pinning.apt import LayerPackages, closures, program

from ..programs import run
from ..stand_in_archive import Package, StandInArchive
from .test_apt_mirrors import archive, settings_of_apt

__all__ = ["archive"]

EXPIRED = "Fri, 02 Jan 2026 00:00:00 UTC"


def ask(work: Path, archive: StandInArchive, package: str) -> subprocess.CompletedProcess[str]:
    """Run the program of a lock with an apt that knows nothing but the archive."""
    settings = settings_of_apt(work, [f"{archive.root.as_uri()}/near"])
    (work / "apt.conf").write_text(f'{settings}Dir::Etc::Parts "{work}/parts";\n')
    (work / "answers").mkdir()
    own = {"APT_CONFIG": f"{work}/apt.conf", "LUMICONTAINER_WHEELS": f"{work}/answers"}
    command = ["bash", "-c", program([LayerPackages([package])])]
    return run(command, env={**own, "LC_ALL": "C"})


def test_a_mirror_whose_lists_expired_is_locked(archive: StandInArchive, tmp_path: Path) -> None:
    archive.publish("near", [Package("held")], suite="any", origin="test", until=EXPIRED)
    done = ask(tmp_path, archive, "held")
    assert done.returncode == 0, done.stderr
    printed = {"layer": (tmp_path / "answers/0").read_text()}
    assert closures(printed) == {"layer": {"held": "1"}}
    sha256 = hashlib.sha256((archive.root / "near/held_1.deb").read_bytes()).hexdigest()
    assert (tmp_path / "answers/0.files").read_text() == f"held=1 {sha256}\n"


def test_its_lists_must_be_signed_as_ever(archive: StandInArchive, tmp_path: Path) -> None:
    archive.make_key("other")
    packages = [Package("held")]
    archive.publish("near", packages, suite="any", origin="test", until=EXPIRED, signer="other")
    done = ask(tmp_path, archive, "held")
    assert done.returncode != 0
    assert "is not signed" in done.stdout + done.stderr


def check(work: Path, lock: str) -> subprocess.CompletedProcess[str]:
    """Compare lines of a lock with the lists that ``ask`` has left."""
    (work / "lock").write_text(lock)
    command = ["bash", APT_FILES, "check", work / "lock"]
    return run(command, env={"APT_CONFIG": f"{work}/apt.conf", "LC_ALL": "C"})


def test_a_file_that_the_mirror_lacks_or_has_otherwise_ends_a_locked_build(
    archive: StandInArchive, tmp_path: Path
) -> None:
    archive.publish("near", [Package("held"), Package("other")], suite="any", origin="test")
    assert ask(tmp_path, archive, "held").returncode == 0
    held = (tmp_path / "answers/0.files").read_text()
    assert check(tmp_path, held).returncode == 0
    for line in (f"held=1 {'0' * 64}", f"held=0.9 {'0' * 64}", f"gone=1 {'0' * 64}"):
        done = check(tmp_path, f"{held}{line}\n")
        assert done.returncode == DOWNLOAD_FAILED
        package = line.partition(" ")[0]
        assert f"apt does not have the file of '{package}' that the lock names" in done.stderr
        assert "hint: write a new lock, or name a mirror of the lock's time" in done.stderr
