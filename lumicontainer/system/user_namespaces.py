"""Check for user namespaces and subordinate ids, and enter a namespace."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.system import process

PLAIN_NAMESPACE = ("unshare", "--map-root-user")
"""Prefix of a command that runs as root of a namespace without other users."""
_NO_NAMESPACES = Path(__file__).parent / "scripts/no-namespaces.txt"
"""The hint if user namespaces are missing; install-engine.sh prints it as well."""


class SubordinateIds(NamedTuple):
    """Hold a range of ids that a user may map into a namespace (subuid(5))."""

    start: int
    length: int


def subordinate_ids(path: Path) -> SubordinateIds | None:
    """Return the current user's first range in /etc/subuid or /etc/subgid."""
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
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def own_ids() -> tuple[SubordinateIds, SubordinateIds]:
    """Return the user's ranges of user and group ids; raise ``HostError`` if one is missing."""
    users, groups = (subordinate_ids(Path(f"/etc/{name}")) for name in ("subuid", "subgid"))
    if users and groups:
        return users, groups
    missing = [name for name, ids in (("subuid", users), ("subgid", groups)) if ids is None]
    options = " ".join(f"--add-{name}s 100000-165535" for name in missing)
    files = " and ".join(f"/etc/{name}" for name in missing)
    raise HostError(
        Problem(
            "this user cannot build images here",
            why=f"{files} has no range of subordinate ids for you; LUMI has no user namespaces",
            hint=f"sudo usermod {options} {_user()} (make engine does it), or build with PRoot: "
            "lumicontainer render RECIPE --platform lumi-g prints the definition and the commands",
        )
    )


def namespace_command() -> list[str]:
    """Return the prefix of a command that runs as root of a namespace with subordinate ids."""
    # For root, --map-auto of util-linux 2.38 takes the first line of /etc/subuid of any user.
    users, groups = own_ids()
    return [
        "unshare",
        "--map-root-user",
        f"--map-users={users.start},1,{users.length}",
        f"--map-groups={groups.start},1,{groups.length}",
        "--",
    ]


def require_namespaces(command: Sequence[str] = PLAIN_NAMESPACE) -> None:
    """Raise ``HostError`` if a command cannot enter a user namespace."""
    try:
        process.capture([*command, "true"])
    except LumicontainerError as error:
        problem = error.problems[0]
        raise HostError(
            Problem(
                "this user cannot create user namespaces here",
                why=problem.why or problem.what,
                hint=_NO_NAMESPACES.read_text().strip(),
            )
        ) from error


def needs_user_namespace() -> bool:
    """Return whether root must start containers in a user namespace.

    Apptainer asks for every capability when root starts it, and fails if one is missing.
    """
    if os.getuid() != 0:
        return False
    wanted = (1 << (int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1)) - 1
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16) & wanted != wanted
    return False


def namespace_options() -> list[str]:
    """Return the engine's options that start a container as the current user."""
    return ["--userns"] if needs_user_namespace() else []
