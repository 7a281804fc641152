"""Find the cause of an error outside of the build: files that were removed, a daemon that ended."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lumicontainer.build.builder import Builder
from lumicontainer.build.cache import store
from lumicontainer.build.workspace import DOCKER
from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.host.docker import daemon

_AGAIN = "repeat the command"


@contextmanager
def naming_causes(builder: Builder) -> Iterator[None]:
    """Raise, in place of an error with a cause outside of the build, one that names the cause."""
    try:
        yield
    except (OSError, LumicontainerError) as error:
        if cause := _removal(builder) or _end_of_the_daemon(builder, error):
            raise cause from error
        raise


def require_files(builder: Builder) -> None:
    """Raise ``HostError`` if another program removed files of the build.

    A layer made of what remains would record the others as removed by its step.
    """
    if removal := _removal(builder):
        raise removal


def _removal(builder: Builder) -> HostError | None:
    place, cache = builder.place, builder.cache
    if not place.is_there():
        what, other = "the folder of the build was removed while it ran", "LUMICONTAINER_TMPDIR"
        hint = f"{_AGAIN}; if something empties that folder, name another one with {other}"
        return HostError(Problem(what, str(place.root), hint=hint))
    layers = [each.folder for each in builder.proven.values() if not _is_whole(each)]
    folders = [each for each in cache.folders() if not each.is_dir()]
    if missing := [*folders, *layers]:
        what = "the cache was removed while a build used it"
        return HostError(Problem(what, str(missing[0]), hint=_AGAIN))
    return None


def _end_of_the_daemon(builder: Builder, error: Exception) -> HostError | None:
    """Return the error for a Docker daemon that ended while a step used it, as its log says."""
    said = f"error: {daemon.SILENT}"
    if builder.runtime.name != DOCKER or said not in str(error) or isinstance(error, HostError):
        return None
    what, hint = "the Docker daemon ended while the build used it", f"start it, and {_AGAIN}"
    return HostError(Problem(what, daemon.address(), hint=hint))


def _is_whole(entry: store.Entry) -> bool:
    names = [store.SUMS, store.ENTRY, *([store.LAYER] if entry.kind == "layer" else [])]
    return all(os.path.lexists(entry.folder / name) for name in names)
