"""Publish objects of the user's own cache in a shared one."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lumicontainer.cache.explain import stack_of
from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import Entry
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.steps import BASE, Plan
from lumicontainer.errors import InputError, Problem
from lumicontainer.system import flock
from lumicontainer.system.terminal.progress import Progress

NEW, PRESENT, DAMAGED = "published", "there already", "damaged"


class Outcome(NamedTuple):
    """Hold what became of one object."""

    entry: Entry
    state: str
    """One of ``NEW``, ``PRESENT`` and ``DAMAGED``."""
    why: str = ""


def objects_of(plan: Plan, store: Cache, *, hint: str) -> list[Entry]:
    """Return the layers of an image and the wheels in them; all layers must be cached."""
    stack = list(stack_of(plan, store.entry))
    if missing := [BASE, *(step.name for step in plan.steps)][len(stack) :]:
        what = f"recipe '{plan.resolved.recipe.name}' is not built"
        raise InputError(Problem(what, why=f"not in the cache: {', '.join(missing)}", hint=hint))
    trees = {each.tree for each in stack}
    compiled = {step.compiled.key for step in plan.steps if step.compiled}
    return stack + [e for e in store.entries() if e.key in compiled and e.parent in trees]


def publish(
    entries: Sequence[Entry], store: Cache, shared: SharedCache, progress: Progress, *, key: str
) -> Iterator[Outcome]:
    """Publish objects, and sign them by the SSH key ``key`` if it is given."""
    shared.require()
    shared.remove_drafts()
    progress.expect(len(entries))
    for entry in entries:
        if shared.has(entry.name):
            progress.cached(entry.shown, PRESENT)
            yield Outcome(entry, PRESENT)
            continue
        held = flock.shared(store.use_lock(entry.name))
        try:
            with progress.step(entry.shown) as task:
                new = shared.publish(entry, key)
                if not new:
                    task.note_origin(PRESENT)
            yield Outcome(entry, NEW if new else PRESENT)
        except Damaged as error:
            yield Outcome(entry, DAMAGED, str(error))
        except FileNotFoundError:
            if entry.folder.exists():
                raise
            # Another process removed it.
        finally:
            if held is not None:
                os.close(held)
