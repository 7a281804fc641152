"""Raise the limit of open files: rank 0 holds a connection to each rank's store client."""

import contextlib
import resource

# Those of a program that trains: libraries, data loaders, the network.
SPARE = 256


def raise_limit() -> None:
    """Raise this process's soft limit to its hard one; the program inherits it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def warning(ranks: int) -> str:
    """Return a warning if rank 0 may not open enough files for all ranks, else ""."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= ranks + SPARE:
        return ""
    return (
        f"a process may open {hard} files here (ulimit -Hn), but rank 0 needs one for each of the "
        f"{ranks} ranks and {SPARE} more: the ranks may never meet. Ask the site for a higher limit"
    )
