"""A lock asks apt for versions, also where the lists of a frozen mirror have expired."""

import subprocess
from pathlib import Path

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


def test_its_lists_must_be_signed_as_ever(archive: StandInArchive, tmp_path: Path) -> None:
    archive.make_key("other")
    packages = [Package("held")]
    archive.publish("near", packages, suite="any", origin="test", until=EXPIRED, signer="other")
    done = ask(tmp_path, archive, "held")
    assert done.returncode != 0
    assert "is not signed" in done.stdout + done.stderr
