"""Find the cause of an error outside of the build: files that were removed, a daemon that ended."""

from collections.abc import Iterator
from contextlib import contextmanager

from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.host.docker import daemon
from lumicontainer.sandbox.builder import Builder
from lumicontainer.sandbox.failures.removal import AGAIN, removal
from lumicontainer.sandbox.workspace import DOCKER


@contextmanager
def naming_causes(builder: Builder) -> Iterator[None]:
    """Raise, in place of an error with a cause outside of the build, one that names the cause."""
    try:
        yield
    except (OSError, LumicontainerError) as error:
        if cause := removal(builder.place, builder.cache, builder.proven) or _end_of_the_daemon(
            builder, error
        ):
            raise cause from error
        raise


def _end_of_the_daemon(builder: Builder, error: Exception) -> HostError | None:
    """Return the error for a Docker daemon that ended while a step used it, as its log says."""
    said = f"error: {daemon.SILENT}"
    if builder.runtime.name != DOCKER or said not in str(error) or isinstance(error, HostError):
        return None
    what, hint = "the Docker daemon ended while the build used it", f"start it, and {AGAIN}"
    return HostError(Problem(what, daemon.address(), hint=hint))
