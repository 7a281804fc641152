"""The private folder in which a build works, and its removal.

    $LUMICONTAINER_TMPDIR, else $TMPDIR, else /var/tmp
    └── lumicontainer-<uid>/          0700, the user's own
        └── <recipe>-<random>/        one build
            ├── lock                  held by the build while it lives
            ├── <step>/               one running step: what it changes, and its /tmp
            └── logs/<step>.log

A build that died, or kept its state because a step failed, holds its lock no more: the next build
of the same recipe removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lumicontainer import locks, process
from lumicontainer.errors import HostError, Problem, SpaceError
from lumicontainer.machine import namespace_command

GIB = 1 << 30
NEED_TREE = 4 * GIB
"""Free bytes without which no build begins; the tree of PyTorch takes 2.3 GB."""


@dataclass
class Workspace:
    """Name the places of one build."""

    root: Path
    keep: bool = False
    """Leave the folder where it is when the build ends."""
    tree_of: list[str] = field(default_factory=list)
    """The layers whose files, with those of one step more, the folder ``tree`` holds."""
    held: list[int] = field(default_factory=list)
    """Locks that are held until the build ends."""

    def hold(self, lock: int | None) -> None:
        """Hold a lock until the build ends."""
        if lock is not None:
            self.held.append(lock)

    def log(self, step: str) -> Path:
        """Return the log file of a step."""
        return self.root / "logs" / f"{step}.log"


def temporary_root() -> Path:
    """Return the user's own folder for builds, made with mode 0700 where it is missing.

    Raises ``HostError`` where something else stands in its place.
    """
    parent = os.environ.get("LUMICONTAINER_TMPDIR") or os.environ.get("TMPDIR") or "/var/tmp"
    root = Path(parent) / f"lumicontainer-{os.getuid()}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        info = root.lstat()
    except OSError as error:
        why = error.strerror or str(error)
        raise HostError(
            Problem("builds have no place", str(root), why, "name one with LUMICONTAINER_TMPDIR")
        ) from error
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise HostError(
            Problem(
                "the folder for builds is not private",
                str(root),
                why="it is not a folder of yours with mode 0700",
                mend="remove it, or name another place with LUMICONTAINER_TMPDIR",
            )
        )
    return root


def require_space(path: Path, need: int, what: str) -> None:
    """Raise ``SpaceError`` where the file system of ``path`` has less than ``need`` bytes free."""
    free = shutil.disk_usage(path).free
    if free < need:
        raise SpaceError(
            Problem(
                f"there is too little room for {what}",
                str(path),
                why=f"it needs {need / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free",
                mend="make room, or name another place with LUMICONTAINER_TMPDIR or --output",
            )
        )


@contextmanager
def workspace(recipe: str) -> Iterator[Workspace]:
    """Make the folder of one build, and remove it at the end unless ``keep`` is set.

    What earlier builds of the same recipe left, because they died or kept a failure, is removed.
    """
    root = temporary_root()
    # Between the making of a folder and its lock no other build may take it for a dead one's.
    with _guard(root):
        stale = list(_set_aside(root, recipe))
        place = Workspace(Path(tempfile.mkdtemp(prefix=f"{recipe}-", dir=root)))
        lock = locks.exclusive(place.root / "lock")
    assert lock is not None
    try:
        for folder in stale:
            remove_tree(folder)
        (place.root / "logs").mkdir()
        yield place
    finally:
        if not place.keep:
            remove_tree(place.root)
        for each in (*place.held, lock):
            os.close(each)


@contextmanager
def _guard(root: Path) -> Iterator[None]:
    with (root / ".guard").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _set_aside(root: Path, recipe: str) -> Iterator[Path]:
    """Rename the folders that no living build of ``recipe`` holds, and yield them."""
    for folder in root.iterdir():
        if folder.name.rpartition("-")[0] not in (recipe, f".{recipe}") or not folder.is_dir():
            continue
        lock = locks.exclusive(folder / "lock")
        if lock is not None:
            aside = folder.with_name(f".{folder.name.lstrip('.')}")
            folder.rename(aside)
            os.close(lock)
            yield aside


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
    try:
        process.capture([*namespace, "rm", "-rf", "--one-file-system", "--", str(folder)])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
