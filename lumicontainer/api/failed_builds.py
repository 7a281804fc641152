"""The states that failed builds left: list them, remove them, and open a shell in one."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.cache.objects import LAYER
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.host.recipes import locate_recipe
from lumicontainer.sandbox.failures.failure import OPENER
from lumicontainer.sandbox.workspace import FAILED, workspace
from lumicontainer.system import flock
from lumicontainer.system.files.temporary import recipe_of, temporary_root

NONE_KEPT = "no state of a failed build is kept"
_NOTED = ("recipe", "step", "time", "log")


class FailedBuild(NamedTuple):
    """Hold what is known of a failed build that is kept."""

    folder: Path
    recipe: str
    step: str
    time: float
    log: str

    def size(self) -> int:
        """Return the bytes that it takes on the disk; 0 if a build is removing it."""
        try:
            return sum(path.lstat().st_blocks for path in self.folder.rglob("*")) * 512
        except FileNotFoundError:
            return 0

    def missing_layers(self) -> list[str]:
        """Return the layers that its shell requires and the cache no longer has."""
        text = (self.folder / OPENER).read_text()
        files = [word.removesuffix(":ro") for word in shlex.split(text, comments=True)]
        return [file for file in files if Path(file).name == LAYER and not Path(file).exists()]

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer debug --list --json`` prints it."""
        noted = {name: getattr(self, name) for name in _NOTED}
        return {**noted, "bytes": self.size(), "path": str(self.folder)}


def list_failed_builds(recipe: str | None = None) -> list[FailedBuild]:
    """Return the states that are kept, of one recipe or of all; newest first."""
    name = recipe and locate_recipe(recipe, None)[0]
    states = []
    for note in temporary_root().glob(f"[!.]*/{FAILED}"):
        try:
            data = json.loads(note.read_bytes())
            state = FailedBuild(note.parent, *(data[name] for name in _NOTED))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # Another process is removing it.
        if name in (None, state.recipe):
            states.append(state)
    return sorted(states, key=lambda state: state.time, reverse=True)


def require_failed_build(recipe: str | None = None) -> FailedBuild:
    """Return the newest state that is kept; raise ``InputError`` if there is none."""
    if states := list_failed_builds(recipe):
        return states[0]
    what = f"{NONE_KEPT} for '{recipe}'" if recipe else NONE_KEPT
    why = "a build keeps its state when a step fails, until the next build of its recipe"
    hint = f"build until a step fails: lumicontainer build {recipe or 'RECIPE'}"
    raise InputError(Problem(what, str(temporary_root()), why, hint))


def remove_failed_builds(states: Sequence[FailedBuild]) -> list[FailedBuild]:
    """Remove states; return those that stay because a shell uses them."""
    for recipe in {recipe_of(state.folder) for state in states}:
        with workspace(recipe):
            pass  # A build first removes what earlier builds of its recipe left.
    return [state for state in states if state.folder.exists()]


def lock_state(state: FailedBuild) -> int:
    """Return an open file that keeps a state while its shell runs, so that no build removes it.

    Raises ``HostError`` if another shell has the state, or if layers of it are gone.
    """
    if missing := state.missing_layers():
        what = f"layers below the step '{state.step}' were removed from the cache"
        hint = f"build until the step fails: lumicontainer build {state.recipe}"
        raise HostError(Problem(what, "\n".join(missing), hint=hint))
    path = state.folder / "lock"
    lock = flock.exclusive(path)
    if lock is None:
        hint = "leave the other shell first"
        raise HostError(Problem("the state is in use", str(path.parent), flock.holder(path), hint))
    return lock
