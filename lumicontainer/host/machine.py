"""The platform, memory, environment and engine of this host."""

from __future__ import annotations

import os
from pathlib import Path

from lumicontainer.core.catalog import Catalog
from lumicontainer.core.model import Platform
from lumicontainer.system import process


def free_memory() -> int:
    """Return the bytes of memory that programs can use without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_there(path: str) -> bool:
    """Return whether this user sees a path; a folder without access counts as empty.

    Other errors are raised, such as that of a lost file server.
    """
    try:
        return Path(path).exists()
    except PermissionError:
        return False


def detect_platform(catalog: Catalog) -> Platform:
    """Return the platform whose paths all exist, else ``workstation``."""
    for name, paths in catalog.detected():
        if paths and all(map(is_there, paths)):
            return catalog.platform(name)
    return catalog.platform("workstation")


def platform_of(catalog: Catalog, name: str | None) -> Platform:
    """Return the named platform, else that of this host."""
    return catalog.platform(name) if name else detect_platform(catalog)


def clean_environment() -> dict[str, str]:
    """Return the environment without the engines' variables, except those that name folders.

    With a site's bindings module loaded, a build fails at a missing mount point (LUMI training
    materials, docs/2day-20260422/205-Containers.md).
    """
    kept = ("_CACHEDIR", "_TMPDIR", "_CONFIGDIR")
    cleaned = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("APPTAINER", "SINGULARITY")) or name.endswith(kept)
    }
    # debootstrap runs chroot by its name, which is not on an ordinary user's PATH on Debian.
    return cleaned | {"PATH": ":".join([*os.get_exec_path(), "/usr/sbin", "/sbin"])}


def engine_path() -> Path | None:
    """Return the container engine of this host, Apptainer before SingularityCE."""
    return process.find("apptainer") or process.find("singularity")
