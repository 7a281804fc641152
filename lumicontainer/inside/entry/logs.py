"""Write what a rank says to files of its own, which outlive the run and never replace another's."""

from __future__ import annotations

import os
import sys

from ..errors import UNFIT, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..rank.context import Context


def redirect(context: Context) -> None:
    """Lead stdout and stderr of the program to files in the folder of ``--log-dir``.

    What lumi-entry itself has to say still goes where it went. Raises LaunchError where the files
    cannot be made or written.
    """
    folder = context.options.log_dir
    try:
        os.makedirs(folder, exist_ok=True)
        pair = _open_pair(os.path.join(folder, context.rank_stem()))
        for descriptor in pair:
            # A full disk still takes empty files.
            os.write(descriptor, b"\n")
            os.ftruncate(descriptor, 0)
    except OSError as error:
        raise LaunchError(
            f"cannot write logs to '{folder}': {error.strerror}",
            where=f"{error.filename or os.path.abspath(folder)} on {os.uname().nodename}",
            why="each rank makes two files there, as --log-dir asks for",
            hint="name a folder that every node sees, may write to, and that has room",
            code=UNFIT,
            alone=True,
        ) from None
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    for descriptor, standard in zip(pair, (1, 2)):
        os.dup2(descriptor, standard)
        os.set_inheritable(standard, True)
        if descriptor > 2:
            os.close(descriptor)


def _open_pair(stem: str) -> tuple[int, int]:
    """Open the first pair of names that no earlier run took, as X.out and X.err, or X.1.out."""
    number = 0
    while True:
        name = f"{stem}.{number}" if number else stem
        number += 1
        try:
            out = _open_new(f"{name}.out")
        except FileExistsError:
            continue
        try:
            return out, _open_new(f"{name}.err")
        except FileExistsError:
            os.close(out)
            os.unlink(f"{name}.out")


def _open_new(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
