"""The lock of an image, as several verbs take it from what they are told."""

from __future__ import annotations

import argparse

from lumicontainer.build.lock_files import open_lock
from lumicontainer.commands import context
from lumicontainer.core.lock.lock import Lock, faults, file_name, held
from lumicontainer.core.resolve.resolve import Resolved
from lumicontainer.errors import LockError, Problem
from lumicontainer.system.files.recipe_folder import display


def lock_of(resolved: Resolved, arguments: argparse.Namespace) -> tuple[str, Lock] | None:
    """Return the lock of an image with the path of its file, if there is one."""
    file = context.catalog_of(arguments).lock(file_name(resolved))
    return (display(file.path()), open_lock(*file)) if file else None


def locked(resolved: Resolved, arguments: argparse.Namespace) -> Resolved:
    """Return an image held by its lock; raise ``LockError`` where that does not hold all of it."""
    name = file_name(resolved)
    profile = f" --profile {resolved.profile.name}" if resolved.profile else ""
    recipe = context.named_recipe(arguments)
    hint = f"lumicontainer lock {recipe} --platform {resolved.platform.name}{profile}"
    found = lock_of(resolved, arguments)
    if found is None:
        raise LockError(Problem("this image has no lock", f"locks/{name}", hint=hint))
    path, lock = found
    if wrong := faults(lock, resolved):
        raise LockError(
            Problem("the lock does not hold all of the image", path, "\n".join(wrong), hint)
        )
    return held(resolved, lock)
