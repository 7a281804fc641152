"""Create and remove the private folder in which a build works.

    $LUMICONTAINER_TMPDIR, else $TMPDIR, else /var/tmp
    └── lumicontainer-<uid>/          0700, owned by the user
        └── <recipe>-<random>/        one build; of another runtime: <recipe>.<runtime>-<random>
            ├── lock                  held by the build while it runs
            ├── sandbox/              the tree in which layers are built, and its state
            ├── step-<step>/          one running step: its /tmp, and the overlay if it compiles
            └── logs/<step>.log

A successful build leaves its sandbox, unless another build of the recipe has one. A failed build
leaves everything, or only its logs. The next build of the recipe reuses the sandbox and removes the
rest. Any build removes what killed builds left.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lumicontainer.errors import HostError
from lumicontainer.host.docker import container
from lumicontainer.sandbox.tree.snapshot import STATE
from lumicontainer.system import flock, process
from lumicontainer.system.files import temporary
from lumicontainer.system.interruption import postpone_signals
from lumicontainer.system.terminal import output
from lumicontainer.system.user_namespaces import namespace_command

DOCKER = "docker"
"""The runtime whose trees belong to root."""
LOCK = ".lock"
"""The suffix of a recipe's name while ``lock`` asks for its pins, in parallel with a build of
it.
"""
SANDBOX = "sandbox"
LOGS = "logs"
_IDLE = "idle"
"""A file in a folder whose processes have all ended."""
FAILED = "failed.json"
"""A file in a folder that is kept for inspection; it describes the failure."""
NEED_TREE = 4 << 30
"""Free bytes that every build needs; the tree of PyTorch takes 2.3 GB."""


@dataclass
class Workspace:
    """Hold the folder of one build."""

    root: Path
    lock: int = -1
    """The descriptor of the lock of the folder."""
    keep: bool = False
    keep_logs: bool = False
    sandbox_layers: list[str] = field(default_factory=list)
    locks: list[int] = field(default_factory=list)
    """Descriptors of locks that last until the build ends."""

    @property
    def sandbox(self) -> Path:
        """Return the folder of the tree in which layers are built."""
        return self.root / SANDBOX

    def is_there(self) -> bool:
        """Return whether the folder still has the lock of this build."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self.lock), (self.root / "lock").lstat())
        return False

    def log(self, step: str) -> Path:
        """Return the log file of a step; create its folder."""
        folder = self.root / LOGS
        folder.mkdir(exist_ok=True)
        return folder / f"{step}.log"

    def drop_log(self, step: str) -> None:
        """Remove the log of a successful step."""
        log = self.log(step)
        log.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Other steps may have logs there.
            log.parent.rmdir()


@contextmanager
def workspace(
    recipe: str, say: Callable[[str], object] = output.say, *, runtime: str = "namespaces"
) -> Iterator[Workspace]:
    """Create the folder of one build, and remove what earlier builds left.

    The sandbox of an earlier build of the recipe by the same runtime is reused. At the end the
    sandbox stays, or the whole folder if ``keep`` is set, or the logs if ``keep_logs`` is; an
    interrupted build leaves nothing. ``say`` receives a message about that.
    """
    root = temporary.temporary_root()
    recipe = recipe if runtime == "namespaces" else f"{recipe}.{runtime}"
    with temporary.creating(root):
        place, stale = _enter(root, recipe)
    try:
        with temporary.keep_from_cleaners(place.root), _leave(root, place, say):
            for folder in stale:
                _remove_renamed(folder, wait=temporary.recipe_of(folder) in (recipe, recipe + LOCK))
            yield place
    finally:
        for each in (*place.locks, place.lock):
            os.close(each)


@contextmanager
def _leave(root: Path, place: Workspace, say: Callable[[str], object]) -> Iterator[None]:
    """Leave of a build's folder what stays when it ends."""
    done = False
    try:
        yield
        done = True
    except KeyboardInterrupt:
        place.keep = place.keep_logs = False
        say(f"interrupted: removing {place.root}")  # It may take a minute.
        raise
    finally:
        if done and place.sandbox.exists():
            _leave_sandbox(root, place)
        elif not place.keep:
            _leave_logs(place)
        if place.root.exists():
            (place.root / _IDLE).touch()


def _enter(root: Path, recipe: str) -> tuple[Workspace, list[Path]]:
    def is_stale(folder: Path) -> bool:
        kept = any((folder / name).exists() for name in (_IDLE, FAILED))
        own = temporary.recipe_of(folder) in (recipe, recipe + LOCK)
        return folder.name.startswith(".") or not kept or own

    # Under the guard, no other build sees a new folder that has no lock yet. A folder that was
    # renamed earlier may be half removed, so its sandbox is not reused.
    with temporary.guard(root):
        folder = Path(tempfile.mkdtemp(prefix=f"{recipe}-", dir=root))
        lock = flock.exclusive(folder / "lock")
        assert lock is not None
        place, stale = Workspace(folder, lock), []
        for folder, was_renamed in temporary.rename_unused(root, is_stale):
            stale.append(folder)
            usable = (folder / _IDLE).exists() and (folder / SANDBOX / STATE).exists()
            reusable = usable and not was_renamed and temporary.recipe_of(folder) == recipe
            if reusable and not place.sandbox.exists():
                (folder / SANDBOX).rename(place.sandbox)
    return place, stale


def _leave_logs(place: Workspace) -> None:
    """Leave of a build's folder only its logs, or nothing."""
    if not place.keep_logs:
        remove_tree(place.root)
        return
    for each in place.root.iterdir():
        if each.name not in (LOGS, "lock"):
            remove_tree(each)


def _leave_sandbox(root: Path, place: Workspace) -> None:
    """Leave only the sandbox of a build, and remove the sandboxes of other ended builds.

    If another build of the recipe has a sandbox, remove this one.
    """
    for each in place.root.iterdir():
        if each.name not in (SANDBOX, "lock"):
            remove_tree(each)
    with temporary.guard(root):
        unused = [each for each, _ in temporary.rename_unused(root, _is_left)]
        others = (each for each in root.glob("[!.]*") if each != place.root)
        recipe = temporary.recipe_of(place.root)
        same = (each for each in others if temporary.recipe_of(each) == recipe)
        if any((each / SANDBOX).exists() for each in same):
            unused.append(place.root.rename(place.root.with_name(f".{place.root.name}")))
    for folder in unused:
        _remove_renamed(folder, wait=False)


def _is_left(folder: Path) -> bool:
    """Return whether a folder has only the sandbox of an ended build."""
    return {each.name for each in folder.iterdir()} <= {SANDBOX, "lock", _IDLE}


def _remove_renamed(folder: Path, *, wait: bool) -> None:
    """Remove a renamed folder, unless another build does; with ``wait`` remove it in any case."""
    mark = folder.with_name(f".removing{folder.name}")
    held = None
    with contextlib.suppress(OSError):  # A full disk has no space for the mark.
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
    """Remove a folder, including files of the user's subordinate ids.

    An interruption follows afterwards, so that nothing half removed is left.
    """
    if not folder.exists():
        return
    with postpone_signals():
        # It may fail while another build removes the folder too.
        why = temporary.remove_own(folder)
        if folder.exists():
            remove = ["rm", "-rf", "--one-file-system", "--", str(folder)]
            try:
                command = [*_owners_of(folder), *remove]
            except HostError as error:
                # An ordinary user owns all files, and rm says what is wrong.
                raise process.ProgramError(remove, 1, why) from error
            done = process.in_new_session(command)
            if done.returncode:
                raise process.ProgramError(command, done.returncode, done.stderr)


def _owners_of(folder: Path) -> list[str]:
    """Return the prefix of a command that can change the files of all owners in a folder."""
    if os.getuid() == 0:
        return []
    if any(f".{DOCKER}-" in name for name in folder.parts):
        return container.command(container.on_host(str(temporary.temporary_root())), ())
    return namespace_command()
