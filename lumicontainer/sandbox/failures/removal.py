"""See whether another program removed files of a build while it ran."""

import os
from collections.abc import Mapping

from lumicontainer.cache import objects
from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError, Problem
from lumicontainer.sandbox.workspace import Workspace

AGAIN = "repeat the command"


def require_files(place: Workspace, cache: Cache, proven: Mapping[str, objects.Entry]) -> None:
    """Raise ``HostError`` if another program removed files of the build.

    A layer made of what remains would record the others as removed by its step.
    """
    if error := removal(place, cache, proven):
        raise error


def removal(
    place: Workspace, cache: Cache, proven: Mapping[str, objects.Entry]
) -> HostError | None:
    """Return the error for removed files of a build; ``proven`` are the objects that it uses."""
    if not place.is_there():
        what, other = "the folder of the build was removed while it ran", "LUMICONTAINER_TMPDIR"
        hint = f"{AGAIN}; if something empties that folder, name another one with {other}"
        return HostError(Problem(what, str(place.root), hint=hint))
    layers = [each.folder for each in proven.values() if not _is_whole(each)]
    folders = [each for each in cache.folders() if not each.is_dir()]
    if missing := [*folders, *layers]:
        what = "the cache was removed while a build used it"
        return HostError(Problem(what, str(missing[0]), hint=AGAIN))
    return None


def _is_whole(entry: objects.Entry) -> bool:
    names = [objects.SUMS, objects.ENTRY, *([objects.LAYER] if entry.kind == "layer" else [])]
    return all(os.path.lexists(entry.folder / name) for name in names)
