"""Check for user namespaces and subordinate ids, and enter a namespace."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.system import process
from lumicontainer.system.files.trust import user_name

PLAIN_NAMESPACE = ("unshare", "--map-root-user")
"""Prefix of a command that runs as root of a namespace without other users."""
_NO_NAMESPACES = Path(__file__).parent / "scripts/no-namespaces.txt"
"""The hint if user namespaces are missing; install-engine.sh prints it as well."""


Ids: TypeAlias = tuple[int, int]
"""The first id and the length of a range that a user may map into a namespace (subuid(5))."""


def subordinate_ids(path: Path) -> Ids | None:
    """Return the current user's first range in /etc/subuid or /etc/subgid."""
    names = "|".join(map(re.escape, (user_name(os.getuid()), str(os.getuid()))))
    with suppress(OSError):
        if match := re.search(rf"(?m)^(?:{names}):(\d+):(\d+)$", path.read_text()):
            return int(match[1]), int(match[2])
    return None


def own_ids() -> tuple[Ids, Ids]:
    """Return the user's ranges of user and group ids; raise ``HostError`` if one is missing."""
    users, groups = (subordinate_ids(Path(f"/etc/{name}")) for name in ("subuid", "subgid"))
    if users and groups:
        return users, groups
    missing = [name for name, ids in (("subuid", users), ("subgid", groups)) if ids is None]
    options = " ".join(f"--add-{name}s 100000-165535" for name in missing)
    files = " or ".join(f"/etc/{name}" for name in missing)
    why = f"{files} has no range of subordinate ids for you; LUMI has no user namespaces"
    hint = (
        f"sudo usermod {options} {user_name(os.getuid())} (make engine does it), or build "
        "with PRoot: install the package proot (on LUMI: module load CrayEnv PRoot)"
    )
    raise HostError(Problem("this user cannot build images here", why=why, hint=hint))


def namespace_command() -> list[str]:
    """Return the prefix of a command that runs as root of a namespace with subordinate ids."""
    # For root, --map-auto of util-linux 2.38 takes the first line of /etc/subuid of any user.
    users, groups = (f"{start},1,{length}" for start, length in own_ids())
    return [*PLAIN_NAMESPACE, f"--map-users={users}", f"--map-groups={groups}", "--"]


def require_namespaces(command: Sequence[str] = PLAIN_NAMESPACE) -> None:
    """Raise ``HostError`` if a command cannot enter a user namespace."""
    try:
        process.capture([*command, "true"])
    except LumicontainerError as error:
        what, hint = "this user cannot create user namespaces here", _NO_NAMESPACES.read_text()
        why = error.problems[0].why or error.problems[0].what
        raise HostError(Problem(what, why=why, hint=hint.strip())) from error


def needs_user_namespace() -> bool:
    """Return whether root must start containers in a user namespace.

    Apptainer asks for every capability when root starts it, and fails if one is missing.
    """
    if os.getuid() != 0:
        return False
    every = (1 << (int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1)) - 1
    match = re.search(r"(?m)^CapEff:\s*(\w+)$", Path("/proc/self/status").read_text())
    return match is not None and int(match[1], 16) & every != every


def namespace_options() -> list[str]:
    """Return the engine's options that start a container as the current user."""
    return ["--userns"] if needs_user_namespace() else []
