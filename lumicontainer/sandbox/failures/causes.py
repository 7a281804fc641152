"""Find the cause of an error outside of the build: files that were removed, a daemon that ended."""

from collections.abc import Iterator
from contextlib import contextmanager

from lumicontainer.errors import HostError, LumicontainerError, Problem, SpaceError
from lumicontainer.host.docker import daemon
from lumicontainer.sandbox.builder import Builder
from lumicontainer.sandbox.failures.removal import AGAIN, removal
from lumicontainer.sandbox.workspace import DOCKER


@contextmanager
def naming_causes(builder: Builder) -> Iterator[None]:
    """Replace an error whose cause is outside of the build with one that names the cause."""
    try:
        yield
    except (OSError, LumicontainerError) as error:
        if removed := removal(builder.place, builder.cache, builder.proven):
            raise removed from error
        if cause := _cause_in_the_daemon(builder, error):
            raise cause from error
        raise


def _cause_in_the_daemon(builder: Builder, error: Exception) -> HostError | SpaceError | None:
    """Return the error for a Docker daemon that ended in a step, or is full, as its log says."""
    text = str(error)
    if builder.runtime.name != DOCKER or isinstance(error, HostError):
        return None
    if f"error: {daemon.SILENT}" in text:
        what, hint = "the Docker daemon ended while the build used it", f"start it, and {AGAIN}"
        return HostError(Problem(what, daemon.address(), hint=hint))
    if f"error: {daemon.IS_FULL}" in text:
        return SpaceError(Problem(daemon.IS_FULL, daemon.address(), hint=daemon.FREE_SPACE))
    return None
