"""Fetch what others have published, once for all test runs: real inputs for checks of GPU code."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from lumicontainer.site import debian_mirror

SUITE = "trixie"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lumicontainer-tests"


def debian_library(package: str, name: str) -> Path:
    """Return a library of a package of Debian's, whatever this machine runs."""
    folder = CACHE / f"{package}-{SUITE}"
    found = list(folder.rglob(name))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        _fetch(package, folder)
        (deb,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True)
        deb.unlink()
        found = list(folder.rglob(name))
    return found[0]


def _fetch(package: str, folder: Path) -> None:
    """Download a package with a state of apt's own, so that the system's stays as it is."""
    keys = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed = f"[signed-by={keys}] " if keys.exists() else ""
    (folder / "sources.list").write_text(f"deb {signed}{debian_mirror(SUITE)} {SUITE} main\n")
    (folder / "state/lists/partial").mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": folder / "state",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    for words in (["update"], ["download", package]):
        subprocess.run(["apt-get", "-qq", *options, *words], check=True, cwd=folder)


def wheel_files(package: str) -> Path:
    """Return the unpacked wheel of a Python package."""
    folder = CACHE / package
    if not folder.is_dir():
        fresh = folder.with_name(f"{package}.new")
        fresh.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        wanted = ["--only-binary", ":all:", "--dest", fresh, package]
        subprocess.run([*command, *wanted], check=True)
        (wheel,) = fresh.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(fresh)
        wheel.unlink()
        fresh.rename(folder)
    return folder
