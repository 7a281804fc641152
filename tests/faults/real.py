"""Fetch what others have published, once for all test runs: real inputs for checks of GPU code."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from lumicontainer.host.site import debian_mirror

SUITE = "trixie"
PYTHON = "3.11"
"""The value of the first recipe's image."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lumicontainer-tests"


def debian_library(package: str, name: str, suite: str = SUITE) -> Path:
    """Return a library of a package of Debian, whatever release this machine runs."""

    def fill(folder: Path) -> None:
        _fetch(package, suite, folder)
        (deb,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True)
        deb.unlink()

    return next(kept(f"{package}-{suite}", fill).rglob(name))


def _fetch(package: str, suite: str, folder: Path) -> None:
    """Download a package with a state of apt's own, so that the system's stays as it is."""
    keys = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed = f"[signed-by={keys}] " if keys.exists() else ""
    (folder / "sources.list").write_text(f"deb {signed}{debian_mirror(suite)} {suite} main\n")
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
    """Return the unpacked wheel of a Python package, for the Python of the image."""

    def fill(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        options = ["--only-binary", ":all:", "--python-version", PYTHON, "--dest", folder, package]
        subprocess.run([*command, *options], check=True)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()

    return kept(f"{package}-{PYTHON}", fill)


def published_wheel(package: str) -> Path:
    """Return the file of a pure Python package's wheel, given as NAME==VERSION."""

    def fill(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--only-binary", ":all:", package], check=True, cwd=folder)

    return next(kept(f"{package}-wheel", fill).glob("*.whl"))


def source_files(package: str, sha256: str) -> Path:
    """Return the unpacked source distribution of a Python package, given as NAME==VERSION."""

    def fill(folder: Path) -> None:
        (folder / "wanted.txt").write_text(f"{package} --hash=sha256:{sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", "--requirement", "wanted.txt"]
        subprocess.run(command, check=True, cwd=folder)
        (archive,) = folder.glob("*.tar.gz")
        shutil.unpack_archive(archive, folder, filter="data")
        archive.unlink()

    name, _, version = package.partition("==")
    return kept(f"{package}-source", fill) / f"{name}-{version}"


def kept(name: str, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the cache that is filled once; two test runs may both come to fill it."""
    folder = CACHE / name
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".") as scratch:
            fresh = Path(scratch, name)
            fresh.mkdir()
            fill(fresh)
            with contextlib.suppress(OSError):
                fresh.rename(folder)
    return folder
