"""Redirect stdout and stderr of each rank to its own files, which replace no others (--log-dir)."""

import contextlib
import os
import sys
from collections.abc import Iterator
from itertools import count

from ..errors import UNFIT, LaunchError
from ..launch.launchers import SLURM, TORCHRUN
from ..launch.program import absolute
from ..rank.context import Context


def redirect(context: Context) -> None:
    """Redirect the program's output; lumi-entry's own messages still go to the old stderr.

    Raises LaunchError if the files cannot be created or written.
    """
    folder = context.options.log_dir
    if not folder:
        return
    try:
        os.makedirs(folder, exist_ok=True)
        pair = _open_pair(os.path.join(folder, context.rank_stem()))
        for descriptor in pair:
            # Empty files can be created on a full disk.
            os.write(descriptor, b"\n")
            os.ftruncate(descriptor, 0)
    except OSError as error:
        what = f"cannot write logs to '{folder}': {error.strerror}"
        where = f"{absolute(error.filename or folder)} on {os.uname().nodename}"
        why = "with --log-dir each rank creates two files there"
        hint = "choose a folder that every node can write to, with free space"
        raise LaunchError(what, where, why, hint, code=UNFIT, alone=True) from None
    _note_node(context, folder)
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    for descriptor, standard in zip(pair, (1, 2)):
        os.dup2(descriptor, standard)
        os.set_inheritable(standard, True)


def _note_node(context: Context, folder: str) -> None:
    """Write the ranks of this node to a file next to their logs, for ``lumicontainer postmortem``.

    Once a node, and if the launcher says which ranks they are.
    """
    ranks = _ranks_here(context)
    if not (ranks and context.run_id()) or context.number("LOCAL_RANK"):
        return
    name = f"{context.run_id()}-node-{os.uname().nodename}.ranks"
    with contextlib.suppress(OSError):  # the logs are what the user asked for
        descriptor = _open_new(os.path.join(folder, name))
        os.write(descriptor, f"{ranks}\n".encode())
        os.close(descriptor)


def _ranks_here(context: Context) -> str:
    """Return the numbers of the ranks on this node, with commas; empty if they are not known."""
    if context.launch.name == SLURM:
        return context.env.get("SLURM_GTIDS", "")
    first, count = context.number("RANK"), context.number("LOCAL_WORLD_SIZE")
    if context.launch.name != TORCHRUN or first is None or not count:
        return ""
    return ",".join(map(str, range(first, first + count)))


def _open_pair(stem: str) -> tuple[int, int]:
    """Create X.out and X.err; if an earlier run created either, X.1.out and X.1.err, and so on."""
    names = numbered(stem)
    while True:
        name = next(names)
        try:
            out = _open_new(f"{name}.out")
        except FileExistsError:
            continue
        try:
            return out, _open_new(f"{name}.err")
        except FileExistsError:
            os.close(out)
            os.unlink(f"{name}.out")


def numbered(stem: str) -> Iterator[str]:
    """Yield ``stem``, then ``stem.1`` and so on."""
    yield stem
    yield from (f"{stem}.{number}" for number in count(1))


def _open_new(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
