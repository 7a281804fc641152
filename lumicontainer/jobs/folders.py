"""Keep a private folder for each job: its environment, its log, and files next to the image.

The command that sent a job holds a lock in the folder. If that command is killed, its job goes on,
and a later command removes what is left once Slurm knows the job no more.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lumicontainer.errors import HostError, JobError, Problem
from lumicontainer.jobs import follow, slurm, variables
from lumicontainer.system import flock
from lumicontainer.system.files import trust
from lumicontainer.system.files.ages import seconds_since
from lumicontainer.system.files.partial import partial_file, partial_files
from lumicontainer.system.files.write import write_whole

FOLDERS = "jobs"
"""The folder of the cache that has a folder for each job."""
_LOCK, _SENDER, _OUTPUT = "lock", "sender", "output"
_SECRET = (follow.COMMAND, variables.FILE)
"""The files with the environment of the command that sent the job."""
_KEPT = 7 * 86_400
"""Seconds for which the folder of a failed job stays."""
_SILENT = 3600
"""Seconds without a change after which a sender on another host counts as dead: that host may not
see our locks (Lustre with ``localflock``)."""


@contextmanager
def job_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create the private folder of a job; keep its log if the job ran and failed.

    Removes what killed commands left.
    """
    trust.make_private_folders(parent)
    reclaim(parent)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    held = flock.exclusive(folder / _LOCK)
    assert held is not None
    sender = {"host": os.uname().nodename, "cluster": slurm.cluster()}
    write_whole(folder / _SENDER, json.dumps(sender).encode())
    kept = False
    try:
        yield folder
    except JobError:
        kept = (folder / follow.LOG).exists()
        raise
    else:
        kept = not _succeeded(folder)
    finally:
        if kept:
            _clean(folder)
        else:
            _remove(folder)
        os.close(held)


def mark_failed(folder: Path) -> None:
    """Let the log of a job be kept whose script ended with 0."""
    (folder / follow.ENDED).unlink(missing_ok=True)


@contextmanager
def mark_beside(output: Path, folder: Path) -> Iterator[Path]:
    """Create a file next to the image, by which a job knows that its node sees that folder.

    When the block ends, the job can no longer write the image.
    """
    (folder / _OUTPUT).write_bytes(os.fsencode(output))
    mark = _mark(output, folder)
    mark.touch(mode=0o600, exist_ok=False)
    try:
        yield mark
    finally:
        _withdraw(output, folder)


@contextmanager
def partial_image(output: Path, folder: Path | None) -> Iterator[Path]:
    """Yield a temporary file for an image; ``folder`` is the folder of this process's job, if any.

    Raises ``JobError`` if the command that sent the job has given it up.
    """
    with partial_file(output, _owner(folder) if folder else "") as partial:
        # In this order: whoever removes the sender's file then removes the partial file.
        if folder and not _sender(folder):
            what, hint = "the command that sent this job has ended", "repeat that command"
            raise JobError(Problem(what, str(folder), "no image is wanted of the job", hint))
        yield partial


def _withdraw(output: Path, folder: Path) -> None:
    """Let no process of a job write its image.

    One may still run on a node that Slurm has lost.
    """
    _mark(output, folder).unlink(missing_ok=True)
    (folder / _SENDER).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        for path in partial_files(output, _owner(folder)):
            path.unlink(missing_ok=True)


def _mark(output: Path, folder: Path) -> Path:
    return output.with_name(f".{output.name}.job-{_owner(folder)}")


def _owner(folder: Path) -> str:
    return folder.name.rpartition("-")[2]


def reclaim(parent: Path) -> None:
    """Remove what killed commands left, and the folders of jobs that failed a week ago.

    A folder stays while a job of it waits or runs, and if Slurm cannot be asked.
    """
    # What others closed is reported by the command that needs it.
    if not os.access(parent, os.R_OK | os.X_OK):
        return
    for folder in parent.iterdir():
        # Another command may remove it first; and what is left here hinders nobody.
        with suppress(OSError, HostError):
            if _is_settled(folder):
                _remove_old(folder)
            else:
                _settle(folder)


def _remove(folder: Path) -> None:
    # A job that still ends writes to the path; under another name nobody adds files meanwhile.
    gone = folder.with_name(f"{folder.name}.gone")
    with suppress(OSError):
        shutil.rmtree(folder.rename(gone), ignore_errors=True)


def _is_settled(folder: Path) -> bool:
    return not (folder / _SENDER).exists() and not _secrets(folder)


def _remove_old(folder: Path) -> None:
    limit = _KEPT if (folder / follow.LOG).exists() else _SILENT
    if seconds_since(folder.stat().st_mtime) > limit:
        _remove(folder)


def _settle(folder: Path) -> None:
    """Remove what a dead command left; keep the log of a job that failed."""
    silent = _silence(folder)
    with flock.attempt(folder / _LOCK) as unused:
        if not unused or not _is_over(folder, silent):
            return
        with suppress(OSError):
            _withdraw(Path(os.fsdecode((folder / _OUTPUT).read_bytes())), folder)
        if (folder / follow.LOG).exists() and not _succeeded(folder):
            _clean(folder)
        else:
            _remove(folder)


def _silence(folder: Path) -> float:
    """Return the seconds since something but the lock changed."""
    changing = (each for each in folder.iterdir() if each.name != _LOCK)
    return min(seconds_since(each.stat().st_mtime) for each in (folder, *changing))


def _is_over(folder: Path, silent: float) -> bool:
    """Return whether the sender is dead, its lock being free, and no job waits or runs."""
    sender = _sender(folder)
    if sender.get("host") != os.uname().nodename and silent < _SILENT:
        return False
    # A job of another cluster is not in this queue.
    known = sender.get("cluster") or ""
    return known in ("", slurm.cluster()) and slurm.is_queued(folder.name) is False


def _sender(folder: Path) -> dict[str, str]:
    try:
        facts = json.loads((folder / _SENDER).read_bytes())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _succeeded(folder: Path) -> bool:
    with suppress(OSError):
        return (folder / follow.ENDED).read_text() == "0\n"
    return False


def _clean(folder: Path) -> None:
    """Remove all but the logs and results of a job that is over."""
    for path in (*_secrets(folder), folder / _SENDER, folder / _OUTPUT, folder / _LOCK):
        path.unlink(missing_ok=True)


def _secrets(folder: Path) -> list[Path]:
    return [path for name in _SECRET for path in folder.rglob(name)]
