"""User namespaces and subordinate ids: whether this user has them, and how to enter one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
