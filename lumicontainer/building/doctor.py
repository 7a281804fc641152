"""Check what this host can build and run; each finding has a hint for what is missing."""

import os
import shutil
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from lumicontainer.cache.shared.shared import FOLDER, SharedCache
from lumicontainer.cache.store import Cache
from lumicontainer.cache.usage import size_limit
from lumicontainer.core.catalog import open_catalog
from lumicontainer.engines import ENGINES
from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.host.recipes import find_platform
from lumicontainer.host.site import DEBIAN_KEYRING, find_mirror, require_mirror
from lumicontainer.jobs import slurm
from lumicontainer.jobs.partitions import partition_differences
from lumicontainer.sandbox.runtimes import RUNTIMES, usable
from lumicontainer.sandbox.workspace import NEED_TREE
from lumicontainer.system import process, units, user_namespaces
from lumicontainer.system.files.temporary import temporary_root
from lumicontainer.system.files.user_cache import cache_root, require_usable
from lumicontainer.system.os_errors import refused


class HostFinding(NamedTuple):
    """Hold one finding; ``state`` is ``ok``, ``missing`` or ``note``."""

    what: str
    state: str
    seen: str
    hint: str = ""


def diagnose() -> list[HostFinding]:
    """Check everything that building and running need; change nothing."""
    notes = [_finding(what, "note", look) for what, look in _NOTES.items()]
    needs = [_finding(what, "ok", look) for what, look in _NEEDS.items()]
    needs += [_program(name, why, package) for name, why, package in _PROGRAMS]
    runtimes = [_finding(f"runtime {name}", "ok", partial(_usable, name)) for name in RUNTIMES]
    if any(each.state == "ok" for each in runtimes):
        # What another runtime needs does not keep this host from building.
        runtimes = [_noted(each) for each in runtimes]
        needs = [_noted(each) if each.what in _OF_NAMESPACES else each for each in needs]
    return notes + runtimes + needs


def _noted(finding: HostFinding) -> HostFinding:
    return finding._replace(state="note") if finding.state == "missing" else finding


def _usable(name: str) -> str:
    return f"can build: lumicontainer build --runtime {usable(name).name}"


def _finding(what: str, state: str, look: Callable[[], str]) -> HostFinding:
    try:
        return HostFinding(what, state, look())
    except LumicontainerError as error:
        problem = error.problems[0]
    except OSError as error:
        problem = refused(error, "cannot read or write this path").problems[0]
    seen = ": ".join(filter(None, (problem.what, problem.where, problem.why)))
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
    if path:
        return HostFinding(name, "ok", str(path))
    return HostFinding(name, "missing", f"not found; it {why}", f"install the package {package}")


def _platform() -> str:
    platform = find_platform(open_catalog(), None)
    return f"{platform.name}: {platform.summary}"


def _partitions() -> str:
    platform = find_platform(open_catalog(), None)
    if process.find("scontrol") is None:
        return "none: this host has no Slurm"
    if not platform.slurm.partitions:
        return f"the platform {platform.name} describes none"
    try:
        shown = slurm.show_partitions()
    except HostError:
        return "Slurm does not answer"
    differ = "; ".join(partition_differences(platform.slurm.partitions, shown))
    same = f"as in the platform {platform.name}"
    return f"Slurm's differ from what {platform.name} describes: {differ}" if differ else same


def _rights() -> str:
    if user_namespaces.needs_user_namespace():
        return "root lacks some capabilities: containers start in a user namespace (--userns)"
    return "root" if os.getuid() == 0 else "an ordinary user"


def _cache() -> str:
    store = Cache(cache_root())
    require_usable(store.root)
    entries = list(store.entries())
    size = sum(entry.size for entry in entries)
    return f"{units.size(size)} of {units.size(size_limit(store, entries))} in {store.root}"


def _shared_cache() -> str:
    shared = SharedCache.named()
    if shared is None:
        return f"none; set {FOLDER} to use one"
    shared.require()
    return f"{units.count(len(shared.names()), 'object')} in {shared.root}"


def _engine() -> str:
    hint = "make engine in a checkout, or ask your system's support"
    path = next(filter(None, map(process.find, ENGINES)), None)
    if path is None:
        raise _missing(f"neither {' nor '.join(ENGINES)} is installed", hint)
    try:
        return f"{process.capture([str(path), '--version']).strip()} ({path})"
    except LumicontainerError as error:
        raise _missing(f"{path} does not start: {error}", hint) from error


def _namespaces() -> str:
    user_namespaces.require_namespaces()
    return "available"


def _fuse() -> str:
    if os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "can be opened"
    hint = "sudo chmod 0666 /dev/fuse (as udev does), or modprobe fuse if it is missing"
    raise _missing("cannot be opened for reading and writing", hint)


def _disk_space() -> str:
    root = temporary_root()
    free = shutil.disk_usage(root).free
    catalog = open_catalog()
    platforms = map(catalog.platform, catalog.names("platform"))
    needs = {each.name: each.expects.size for each in platforms if each.expects.size}
    more = "".join(f", one for {name} {units.size(size)}" for name, size in needs.items())
    seen = f"{units.size(free)} in {root}; a build needs {units.size(NEED_TREE)}{more}"
    if free < NEED_TREE:
        raise _missing(seen, "name another place with LUMICONTAINER_TMPDIR")
    return seen


def _mirror() -> str:
    mirror, source = find_mirror("bookworm")
    require_mirror(mirror)
    return f"taken from {source}"


def _keyring() -> str:
    if not DEBIAN_KEYRING.is_file():
        raise _missing(f"{DEBIAN_KEYRING} not found", "install the package debian-archive-keyring")
    return str(DEBIAN_KEYRING)


_OF_NAMESPACES = (
    *("user namespaces", "subordinate ids", "/dev/fuse"),
    *("newuidmap", "fuse-overlayfs", "squashfuse_ll"),
)
_NOTES = {
    "platform": _platform,
    "rights": _rights,
    "cache": _cache,
    "shared cache": _shared_cache,
    "partitions": _partitions,
}
_NEEDS = {
    "engine": _engine,
    "user namespaces": _namespaces,
    "subordinate ids": lambda: "{1} from {0}".format(*user_namespaces.own_ids()[0]),
    "/dev/fuse": _fuse,
    "disk space": _disk_space,
    "Debian mirror": _mirror,
    "Debian keys": _keyring,
}
