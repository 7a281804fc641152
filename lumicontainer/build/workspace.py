"""The private folder in which a build works, and its removal.

    $LUMICONTAINER_TMPDIR, else $TMPDIR, else /var/tmp
    └── lumicontainer-<uid>/          0700, the user's own
        └── <recipe>-<random>/        one build
            ├── lock                  held by the build while it lives
            ├── ground/               the tree in which layers are made, and its state
            ├── step-<step>/          one running step: its /tmp, and where it compiles its overlay
            └── logs/<step>.log

A build that ended leaves the ground, unless another build of the recipe has one; one that failed
leaves all. Neither holds its lock any more: the next build of the same recipe takes the ground over
and removes the rest. What a build left that died, any next build removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lumicontainer.build.tree.snapshot import STATE
from lumicontainer.errors import HostError, Problem, SpaceError
from lumicontainer.system import flock, process
from lumicontainer.system.files import trust
from lumicontainer.system.os_errors import refused
from lumicontainer.system.user_namespaces import namespace_command

GIB = 1 << 30
LOCK = ".lock"
"""Stands after a recipe where its inputs are asked for, beside the build of it."""
_IDLE = "idle"
"""Stands in a folder in which nothing is at work any more."""
FAILED = "failed.json"
"""Stands in a folder that is kept for a look inside, and tells what failed."""
NEED_TREE = 4 * GIB
"""Free bytes without which no build begins; the tree of PyTorch takes 2.3 GB."""


@dataclass
class Workspace:
    """Name the places of one build."""

    root: Path
    keep: bool = False
    """Leave the folder where it is when the build ends."""
    ground_holds: list[str] = field(default_factory=list)
    """The layers that the tree in ``ground`` is known to be made of."""
    held: list[int] = field(default_factory=list)
    """Locks that are held until the build ends."""

    @property
    def ground(self) -> Path:
        """Return the folder of the tree in which layers are made."""
        return self.root / "ground"

    def log(self, step: str) -> Path:
        """Return the log file of a step, in a folder that is there."""
        folder = self.root / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{step}.log"

    def drop_log(self, step: str) -> None:
        """Remove the log of a step that is done: it told what went on, and only takes room now."""
        log = self.log(step)
        log.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Others may have theirs there.
            log.parent.rmdir()


def temporary_folder() -> Path:
    """Return the folder for temporary files; raise ``HostError`` where others could rename them."""
    named = os.environ.get("LUMICONTAINER_TMPDIR") or os.environ.get("TMPDIR") or "/var/tmp"
    if problem := trust.doubt(Path(named), "the temporary folder", "LUMICONTAINER_TMPDIR"):
        raise HostError(problem)
    return Path(named)


def temporary_root() -> Path:
    """Return the user's own folder for builds, made with mode 0700 where it is missing.

    Raises ``HostError`` where something else stands in its place, or others could put it there.
    """
    root = temporary_folder() / f"lumicontainer-{os.getuid()}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        info = root.lstat()
    except OSError as error:
        raise _no_place(root, error) from error
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise HostError(
            Problem(
                "the folder for builds is not private",
                str(root),
                why="it is not a folder of yours with mode 0700",
                hint="remove it, or name another place with LUMICONTAINER_TMPDIR",
            )
        )
    return root


@contextmanager
def workspace(recipe: str) -> Iterator[Workspace]:
    """Make the folder of one build.

    Of what earlier builds of the same recipe left, the tree is taken over and the rest removed, and
    so is what was kept of a lock of it, and what dead builds of any recipe left. At the end the
    tree stays, or all where ``keep`` is set; after an interruption nothing does.
    """
    root = temporary_root()
    try:
        place, lock, stale = _entered(root, recipe)
    except OSError as error:
        raise _no_place(root, error) from error
    done = False
    try:
        for folder in stale:
            _remove_aside(folder, wait=_recipe_of(folder) in _recipes(recipe))
        yield place
        done = True
    finally:
        if done and place.ground.exists():
            _leave_ground(root, place)
        elif not place.keep:
            remove_tree(place.root)
        if place.root.exists():
            (place.root / _IDLE).touch()
        for each in (*place.held, lock):
            os.close(each)


def _entered(root: Path, recipe: str) -> tuple[Workspace, int, list[Path]]:
    """Make the folder of a build; return it, its lock, and the folders that are to be removed."""
    # Between the making of a folder and its lock no other build may take it for a dead one's; and
    # what is set aside may be on its way to be removed by another build, tree and all.
    with _guard(root):
        place = Workspace(Path(tempfile.mkdtemp(prefix=f"{recipe}-", dir=root)))
        lock = flock.exclusive(place.root / "lock")
        stale = []
        for folder, was_aside in _set_aside(root, partial(_is_stale, _recipes(recipe))):
            stale.append(folder)
            if not was_aside and _recipe_of(folder) == recipe:
                _take_over(folder, place)
    assert lock is not None
    return place, lock, stale


def _recipes(recipe: str) -> tuple[str, str]:
    """Return whose folders a build of a recipe removes: its own, and those of its locks."""
    return recipe, recipe + LOCK


def _no_place(root: Path, error: OSError) -> HostError | SpaceError:
    other = "name another place with LUMICONTAINER_TMPDIR"
    return refused(error, "cannot make the folder of a build", str(root), other)


def _take_over(folder: Path, place: Workspace) -> None:
    """Take the tree of an earlier build, unless something may still have been at work in it."""
    usable = (folder / _IDLE).exists() and (folder / "ground" / STATE).exists()
    if usable and not place.ground.exists():
        (folder / "ground").rename(place.ground)


def _is_stale(recipes: Collection[str], folder: Path) -> bool:
    """Tell whether a folder that no living build holds is to go: of these recipes, or a dead's."""
    kept = any((folder / name).exists() for name in (_IDLE, FAILED))
    return folder.name.startswith(".") or not kept or _recipe_of(folder) in recipes


def _leave_ground(root: Path, place: Workspace) -> None:
    """Leave the tree alone of a build, and no other tree but of builds that live: it is large.

    Where another build of the recipe has a tree, which stays in its turn, this one is removed.
    """
    for each in place.root.iterdir():
        if each.name not in ("ground", "lock"):
            remove_tree(each)
    with _guard(root):
        others = [each for each, _ in _set_aside(root, _is_left)]
        if _has_another_tree(root, place.root):
            others.append(place.root.rename(place.root.with_name(f".{place.root.name}")))
    for folder in others:
        _remove_aside(folder, wait=False)


def _has_another_tree(root: Path, own: Path) -> bool:
    recipe = _recipe_of(own)
    return any(
        folder != own and _recipe_of(folder) == recipe and (folder / "ground").exists()
        for folder in root.glob("[!.]*")
    )


def _recipe_of(folder: Path) -> str:
    return folder.name.lstrip(".").rpartition("-")[0]


def _is_left(folder: Path) -> bool:
    """Tell whether a folder holds nothing but the tree that a build left."""
    return {each.name for each in folder.iterdir()} <= {"ground", "lock", _IDLE}


@contextmanager
def _guard(root: Path) -> Iterator[None]:
    with (root / ".guard").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _set_aside(root: Path, wanted: Callable[[Path], bool]) -> Iterator[tuple[Path, bool]]:
    """Rename the wanted folders that no living build holds; yield each, and if it was so before.

    It is to be called under the guard.
    """
    for folder in root.iterdir():
        # One that was set aside before may vanish at any moment.
        with contextlib.suppress(FileNotFoundError):
            if not folder.is_dir() or not wanted(folder):
                continue
            if folder.name.startswith("."):
                # Not locked: the file would hinder who removes the folder already.
                yield folder, True
                continue
            lock = flock.exclusive(folder / "lock")
            if lock is None:
                continue
            aside = folder.with_name(f".{folder.name}")
            folder.rename(aside)
            os.close(lock)
            yield aside, False


def _remove_aside(folder: Path, *, wait: bool) -> None:
    """Remove a folder that was set aside; one that another build removes is left to that build.

    With ``wait`` it is gone in any case at the end.
    """
    mark = folder.with_name(f".removing{folder.name}")
    held = None
    with contextlib.suppress(OSError):  # A full disk has no room for the mark.
        held = flock.exclusive(mark)
        if held is None and not wait:
            return
    try:
        remove_tree(folder)
    finally:
        if held is not None:
            mark.unlink(missing_ok=True)
            os.close(held)


def remove_tree(folder: Path) -> None:
    """Remove a folder, also where files in it belong to subordinate ids of the user.

    Signals are passed over meanwhile, so that nothing half removed stays behind.
    """
    if not folder.exists():
        return
    namespace = namespace_command() if os.getuid() != 0 else []
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        signals = ()  # A thread is not interrupted by them.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    command = [*namespace, "rm", "-rf", "--one-file-system", "--", str(folder)]
    try:
        process.capture(command)
    except process.ProgramError:
        # Another build may be removing the same, and rm stumbles where a folder is gone.
        if folder.exists():
            process.capture(command)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
