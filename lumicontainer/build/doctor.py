"""Look at this host: each finding says what was seen, and a hint for what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from lumicontainer.build.cache.store import Cache, size_limit
from lumicontainer.build.workspace import GIB, NEED_TREE, temporary_root
from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import LumicontainerError, Problem
from lumicontainer.host import machine
from lumicontainer.host.site import DEBIAN_KEYRING, debian_mirror
from lumicontainer.system import process, user_namespaces
from lumicontainer.system.files.user_cache import cache_root

_ENGINE = "make engine in a checkout, or ask your system's support"


@dataclass(frozen=True)
class Finding:
    """Hold one thing that was looked at; ``state`` is ``ok``, ``missing`` or ``note``."""

    what: str
    state: str
    seen: str
    hint: str = ""


def diagnose() -> list[Finding]:
    """Look at all that building and running need; nothing is changed."""
    findings = [look() for look in _LOOKS]
    return findings + [_program(name, why, package) for name, why, package in _PROGRAMS]


_PROGRAMS = (
    ("mksquashfs", "packs images", "squashfs-tools"),
    ("unsquashfs", "reads images for inspect, binds, run and verify", "squashfs-tools"),
    ("squashfuse_ll", "mounts images without root", "squashfuse"),
    ("fuse-overlayfs", "lets layers compile side by side upon others", "fuse-overlayfs"),
    ("setpriv", "ends what a killed build started", "util-linux"),
    ("debootstrap", "makes Debian bases", "debootstrap"),
    ("newuidmap", "maps subordinate ids", "uidmap"),
    ("unshare", "enters a user namespace to pack", "util-linux"),
)


def _program(name: str, why: str, package: str) -> Finding:
    path = process.find(name) or (process.find("squashfuse") if name == "squashfuse_ll" else None)
    if path is None:
        return Finding(name, "missing", f"not found; it {why}", f"install the package {package}")
    return Finding(name, "ok", str(path))


def _engine() -> Finding:
    path = machine.engine_path()
    if path is None:
        return Finding("engine", "missing", "neither apptainer nor singularity is there", _ENGINE)
    try:
        version = process.capture([str(path), "--version"]).strip()
    except LumicontainerError as error:
        return Finding("engine", "missing", f"{path} does not start: {error}", _ENGINE)
    return Finding("engine", "ok", f"{version} ({path})")


def _platform() -> Finding:
    platform = machine.detect_platform(open_catalog())
    return Finding("platform", "note", f"{platform.name}: {platform.summary}")


def _rights() -> Finding:
    if user_namespaces.needs_user_namespace():
        seen = "root without every capability: containers start in a user namespace (--userns)"
        return Finding("rights", "note", seen)
    return Finding("rights", "note", "root" if os.getuid() == 0 else "an ordinary user")


def _namespaces() -> Finding:
    try:
        user_namespaces.require_namespaces()
    except LumicontainerError as error:
        problem = error.problems[0]
        return Finding("user namespaces", "missing", problem.why, problem.hint)
    return Finding("user namespaces", "ok", "can be made")


def _subordinate() -> Finding:
    try:
        users, _ = user_namespaces.own_ids()
    except LumicontainerError as error:
        problem = error.problems[0]
        return Finding("subordinate ids", "missing", problem.why, problem.hint)
    return Finding("subordinate ids", "ok", f"{users.length} from {users.start}")


def _fuse() -> Finding:
    if os.access("/dev/fuse", os.R_OK | os.W_OK):
        return Finding("/dev/fuse", "ok", "can be opened")
    hint = "sudo chmod 0666 /dev/fuse (as udev does), or modprobe fuse where it is not there"
    return Finding("/dev/fuse", "missing", "cannot be opened for reading and writing", hint)


def _room() -> Finding:
    try:
        root = temporary_root()
    except LumicontainerError as error:
        problem = error.problems[0]
        return Finding("room for builds", "missing", _seen(problem), problem.hint)
    free = shutil.disk_usage(root).free
    seen = f"{free / GIB:.1f} GiB in {root}; a build wants {NEED_TREE / GIB:.0f} GiB"
    if free < NEED_TREE:
        return Finding("room for builds", "missing", seen, "name a place with LUMICONTAINER_TMPDIR")
    return Finding("room for builds", "ok", seen)


def _cache() -> Finding:
    try:
        store = Cache(cache_root())
    except LumicontainerError as error:
        problem = error.problems[0]
        return Finding("cache", "missing", _seen(problem), problem.hint)
    size = sum(entry.size for entry in store.entries())
    seen = f"{size / GIB:.1f} of {size_limit() / GIB:.1f} GiB in {store.root}"
    return Finding("cache", "note", seen)


def _seen(problem: Problem) -> str:
    return ": ".join(filter(None, (problem.what, problem.why)))


def _mirror() -> Finding:
    if debian_mirror("bookworm"):
        return Finding("mirror of Debian", "ok", "known from this host's configuration")
    return Finding(
        "mirror of Debian", "missing", "no apt source names one", "set LUMICONTAINER_MIRROR=URL"
    )


def _keyring() -> Finding:
    if DEBIAN_KEYRING.is_file():
        return Finding("keys of Debian", "ok", str(DEBIAN_KEYRING))
    hint = "install the package debian-archive-keyring"
    return Finding("keys of Debian", "missing", f"{DEBIAN_KEYRING} is not there", hint)


_LOOKS: tuple[Callable[[], Finding], ...] = (
    _platform,
    _engine,
    _rights,
    _namespaces,
    _subordinate,
    _fuse,
    _room,
    _cache,
    _mirror,
    _keyring,
)
