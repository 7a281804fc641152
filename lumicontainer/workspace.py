"""The private folder in which a build works, and its removal.

    $LUMICONTAINER_TMPDIR, else $TMPDIR, else /var/tmp
    └── lumicontainer-<uid>/          0700, the user's own
        └── <recipe>-<random>/        one build
            ├── lock                  held by the build while it lives
            ├── tree/                 the image's files; some belong to subordinate ids
            ├── tmp/                  /tmp of the steps
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lumicontainer import process
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

    @property
    def tree(self) -> Path:
        """Return the folder of the image's files."""
        return self.root / "tree"

    @property
    def temporary(self) -> Path:
        """Return the folder that the steps see as /tmp."""
        return self.root / "tmp"

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
    """Make the folder of one build, and remove it at the end unless ``keep`` is set."""
    root = temporary_root()
    _remove_stale(root, recipe)
    place = Workspace(Path(tempfile.mkdtemp(prefix=f"{recipe}-", dir=root)))
    lock = _locked(place.root / "lock")
    assert lock is not None
    (place.root / "logs").mkdir()
    place.temporary.mkdir()
    place.temporary.chmod(0o1777)
    try:
        yield place
    finally:
        if not place.keep:
            remove_tree(place.root)
        os.close(lock)


def _remove_stale(root: Path, recipe: str) -> None:
    for folder in root.iterdir():
        if folder.name.rpartition("-")[0] != recipe or not folder.is_dir():
            continue
        lock = _locked(folder / "lock")
        if lock is not None:
            remove_tree(folder)
            os.close(lock)


def _locked(path: Path) -> int | None:
    """Return a descriptor that holds the lock of ``path``, or None where a build holds it."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def remove_tree(folder: Path) -> None:
    """Remove a folder, also where files in it belong to subordinate ids of the user.

    Signals are passed over meanwhile, so that nothing half removed stays behind.
    """
    if not folder.exists():
        return
    namespace = namespace_command() if os.getuid() != 0 else []
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        process.capture([*namespace, "rm", "-rf", "--one-file-system", "--", str(folder)])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
