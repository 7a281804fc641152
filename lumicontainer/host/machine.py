"""What this machine can do: its engine, its user namespaces, its rights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.core.catalog import Catalog
from lumicontainer.core.model import Platform
from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.system import process

PLAIN_NAMESPACE = ("unshare", "--map-root-user")
"""The start of a command that runs as root of a namespace that has no other user."""
_NO_NAMESPACES = Path(__file__).parent / "scripts/no-namespaces.txt"
"""The hint where no user namespace can be made; install-engine.sh says it as well."""


class SubordinateIds(NamedTuple):
    """Hold a range of ids that a user may map into a namespace (subuid(5))."""

    start: int
    length: int


def subordinate_ids(path: Path) -> SubordinateIds | None:
    """Return the first range of the present user in ``path``, /etc/subuid or /etc/subgid."""
    names = {_user(), str(os.getuid())}
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, numbers = line.partition(":")
        start, _, count = numbers.partition(":")
        if name in names and start.isdigit() and count.isdigit():
            return SubordinateIds(int(start), int(count))
    return None


def _user() -> str:
    import pwd  # noqa: PLC0415 - only builds need it

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def own_ids() -> tuple[SubordinateIds, SubordinateIds]:
    """Return the present user's ranges of users and of groups; raise ``HostError`` without both."""
    users, groups = (subordinate_ids(Path(f"/etc/{name}")) for name in ("subuid", "subgid"))
    if users and groups:
        return users, groups
    lacking = [name for name, ids in (("subuid", users), ("subgid", groups)) if ids is None]
    options = " ".join(f"--add-{name}s 100000-165535" for name in lacking)
    files = " and ".join(f"/etc/{name}" for name in lacking)
    raise HostError(
        Problem(
            "this user cannot build images here",
            why=f"no range of subordinate ids for you in {files}, as on LUMI, where users have no "
            "user namespaces",
            hint=f"sudo usermod {options} {_user()} (make engine does it), or build with PRoot: "
            "lumicontainer render RECIPE --platform lumi-g says how",
        )
    )


def namespace_command() -> list[str]:
    """Return the start of a command that runs as root of a namespace with subordinate ids.

    The ranges are given in numbers because ``--map-auto`` of util-linux 2.38 takes the first line
    of /etc/subuid for root, whoever's it is.
    """
    users, groups = own_ids()
    return [
        "unshare",
        "--map-root-user",
        f"--map-users={users.start},1,{users.length}",
        f"--map-groups={groups.start},1,{groups.length}",
        "--",
    ]


def require_namespaces(command: Sequence[str] = PLAIN_NAMESPACE) -> None:
    """Raise ``HostError`` where a command does not enter a user namespace."""
    try:
        process.capture([*command, "true"])
    except LumicontainerError as error:
        problem = error.problems[0]
        raise HostError(
            Problem(
                "this user can make no user namespaces here",
                why=problem.why or problem.what,
                hint=_NO_NAMESPACES.read_text().strip(),
            )
        ) from error


def needs_user_namespace() -> bool:
    """Tell whether a container must start in a user namespace although this is root.

    Apptainer, started by root, asks for every capability, and fails where one is withheld.
    """
    if os.getuid() != 0:
        return False
    wanted = (1 << (int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1)) - 1
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16) & wanted != wanted
    return False


def namespace_options() -> list[str]:
    """Return the options by which the engine starts a container as the present user."""
    return ["--userns"] if needs_user_namespace() else []


def free_memory() -> int:
    """Return the bytes of memory that programs can have without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_there(path: str) -> bool:
    """Tell whether this user sees a path; below a folder that is closed to them nothing is there.

    Another error is raised: a file server that was lost says nothing of what it has.
    """
    try:
        return Path(path).exists()
    except PermissionError:
        return False


def detect_platform(catalog: Catalog) -> Platform:
    """Return the platform whose paths are all there, else ``workstation``."""
    for name, paths in catalog.detected():
        if paths and all(map(is_there, paths)):
            return catalog.platform(name)
    return catalog.platform("workstation")


def platform_of(catalog: Catalog, name: str | None) -> Platform:
    """Return the named platform, or the one that fits this host."""
    return catalog.platform(name) if name else detect_platform(catalog)


def clean_environment() -> dict[str, str]:
    """Return the environment without what would reach into a container unasked.

    With a site's bindings module loaded a build dies on a missing mount point (LUMI training
    materials, docs/2day-20260422/205-Containers.md), so the engines' own variables go, but for
    the places of their caches.
    """
    kept = ("_CACHEDIR", "_TMPDIR", "_CONFIGDIR")
    cleaned = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("APPTAINER", "SINGULARITY")) or name.endswith(kept)
    }
    # debootstrap calls chroot by name, which an ordinary user's PATH on Debian has not.
    return cleaned | {"PATH": ":".join([*os.get_exec_path(), "/usr/sbin", "/sbin"])}


def engine_path() -> Path | None:
    """Return the container engine of this host, Apptainer before SingularityCE."""
    return process.find("apptainer") or process.find("singularity")
