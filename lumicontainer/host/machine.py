"""The platform, memory, environment and engine of this host."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lumicontainer.constants import ENGINE_PREFIXES


def free_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that programs can use without swapping.

    It is at most what the control group of this process allows, as Slurm sets it for a job.
    """
    lines = (root / "proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    return min([free, *_memory_limits(root)])


def _memory_limits(root: Path) -> Iterator[int]:
    """Yield the limits of this process's control group and its parents (cgroups(7))."""
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top = root / "sys/fs/cgroup" / controllers
        file = "memory.limit_in_bytes" if controllers else "memory.max"
        folder = top / group.lstrip("/")
        for each in (folder, *folder.parents):
            if each.is_relative_to(top) and (each / file).is_file():
                limit = (each / file).read_text().strip()
                if limit.isdigit():
                    yield int(limit)


def is_there(path: str) -> bool:
    """Return whether this user sees a path; a folder without access counts as empty.

    Other errors are raised, such as the error of a lost file server.
    """
    try:
        return Path(path).exists()
    except PermissionError:
        return False


def platform_here(detected: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return the name of the platform whose paths all exist, else ``workstation``."""
    names = (name for name, paths in detected if paths and all(map(is_there, paths)))
    return next(names, "workstation")


def clean_environment() -> dict[str, str]:
    """Return the environment without the engines' variables, except those that name folders.

    With a site's bindings module loaded, a build fails at a missing mount point (LUMI training
    materials, docs/2day-20260422/205-Containers.md).
    """
    dropped = re.compile(rf"(?!.*_(CACHE|TMP|CONFIG)DIR\Z)({'|'.join(ENGINE_PREFIXES)})")
    kept = {name: value for name, value in os.environ.items() if not dropped.match(name)}
    # debootstrap runs chroot by its name, which is not on an ordinary user's PATH on Debian.
    return kept | {"PATH": ":".join([*os.get_exec_path(), "/usr/sbin", "/sbin"])}
