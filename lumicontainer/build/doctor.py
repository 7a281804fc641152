"""Check what this host can build and run; each finding has a hint for what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from lumicontainer.build.cache.store import Cache, size_limit
from lumicontainer.build.workspace import NEED_TREE, temporary_root
from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.host import machine
from lumicontainer.host.site import DEBIAN_KEYRING, debian_mirror
from lumicontainer.system import process, units, user_namespaces
from lumicontainer.system.files.user_cache import cache_root


@dataclass(frozen=True)
class HostFinding:
    """Hold one finding; ``state`` is ``ok``, ``missing`` or ``note``."""

    what: str
    state: str
    seen: str
    hint: str = ""


def diagnose() -> list[HostFinding]:
    """Check everything that building and running need; change nothing."""
    notes = [_finding(what, "note", look) for what, look in _NOTES.items()]
    needs = [_finding(what, "ok", look) for what, look in _NEEDS.items()]
    return notes + needs + [_program(name, why, package) for name, why, package in _PROGRAMS]


def _finding(what: str, state: str, look: Callable[[], str]) -> HostFinding:
    try:
        return HostFinding(what, state, look())
    except LumicontainerError as error:
        problem = error.problems[0]
        seen = ": ".join(filter(None, (problem.what, problem.why)))
        return HostFinding(what, "missing", seen, problem.hint)


def _missing(what: str, hint: str) -> HostError:
    return HostError(Problem(what, hint=hint))


_PROGRAMS = (
    ("mksquashfs", "packs images", "squashfs-tools"),
    ("unsquashfs", "reads images for inspect, binds, run and verify", "squashfs-tools"),
    ("squashfuse_ll", "mounts images without root", "squashfuse"),
    ("fuse-overlayfs", "lets layers compile side by side", "fuse-overlayfs"),
    ("setpriv", "ends the processes of a killed build", "util-linux"),
    ("debootstrap", "builds Debian bases", "debootstrap"),
    ("newuidmap", "maps subordinate ids", "uidmap"),
    ("unshare", "enters a user namespace to pack", "util-linux"),
)


def _program(name: str, why: str, package: str) -> HostFinding:
    path = process.find(name) or (process.find("squashfuse") if name == "squashfuse_ll" else None)
    if path is None:
        return HostFinding(
            name, "missing", f"not found; it {why}", f"install the package {package}"
        )
    return HostFinding(name, "ok", str(path))


def _platform() -> str:
    platform = machine.detect_platform(open_catalog())
    return f"{platform.name}: {platform.summary}"


def _rights() -> str:
    if user_namespaces.needs_user_namespace():
        return "root without every capability: containers start in a user namespace (--userns)"
    return "root" if os.getuid() == 0 else "an ordinary user"


def _cache() -> str:
    store = Cache(cache_root())
    size = sum(entry.size for entry in store.entries())
    return f"{units.size(size)} of {units.size(size_limit())} in {store.root}"


def _engine() -> str:
    hint = "make engine in a checkout, or ask your system's support"
    path = machine.engine_path()
    if path is None:
        raise _missing("neither apptainer nor singularity is installed", hint)
    try:
        version = process.capture([str(path), "--version"]).strip()
    except LumicontainerError as error:
        raise _missing(f"{path} does not start: {error}", hint) from error
    return f"{version} ({path})"


def _namespaces() -> str:
    user_namespaces.require_namespaces()
    return "available"


def _subordinate_ids() -> str:
    users, _ = user_namespaces.own_ids()
    return f"{users.length} from {users.start}"


def _fuse() -> str:
    if os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "can be opened"
    hint = "sudo chmod 0666 /dev/fuse (as udev does), or modprobe fuse if it is missing"
    raise _missing("cannot be opened for reading and writing", hint)


def _disk_space() -> str:
    root = temporary_root()
    free = shutil.disk_usage(root).free
    seen = f"{units.size(free)} in {root}; a build needs {units.size(NEED_TREE)}"
    if free < NEED_TREE:
        raise _missing(seen, "name another place with LUMICONTAINER_TMPDIR")
    return seen


def _mirror() -> str:
    if not debian_mirror("bookworm"):
        raise _missing("apt's sources name none", "set LUMICONTAINER_MIRROR=URL")
    return "found in this host's configuration"


def _keyring() -> str:
    if not DEBIAN_KEYRING.is_file():
        hint = "install the package debian-archive-keyring"
        raise _missing(f"{DEBIAN_KEYRING} not found", hint)
    return str(DEBIAN_KEYRING)


_NOTES = {"platform": _platform, "rights": _rights, "cache": _cache}
_NEEDS = {
    "engine": _engine,
    "user namespaces": _namespaces,
    "subordinate ids": _subordinate_ids,
    "/dev/fuse": _fuse,
    "disk space": _disk_space,
    "Debian mirror": _mirror,
    "Debian keys": _keyring,
}
