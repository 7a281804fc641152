"""Set where PyTorch's flight recorder writes what each rank was doing when a job hung.

It writes when a collective times out, long after the start. The variable holds the start of the
files' names, to which PyTorch adds the rank. The folder must exist, and must outlive the job.
"""

from __future__ import annotations

import os

from ..node.private_folder import open_private
from . import caches
from .context import Context

_FOLDER = "flight-recorder"


def prefix(context: Context) -> tuple[str | None, str]:
    """Return the start of the files' names and the reason; None leaves it to PyTorch.

    The files lie in the folder of ``--log-dir``, else in the user's folder on /scratch, which is
    noted in ``context.recorder`` for ``make``.
    """
    stem = f"{context.run_id()}-{_FOLDER}-rank".lstrip("-")
    if context.options.log_dir:
        return os.path.join(os.path.abspath(context.options.log_dir), stem), "--log-dir"
    home, why = caches.on_scratch(context)
    if not home:
        return None, why
    context.recorder = os.path.join(home, _FOLDER)
    return os.path.join(context.recorder, stem), why


def make(context: Context) -> None:
    """Create the folder on /scratch; a failure is only a warning."""
    if not context.recorder or context.number("LOCAL_RANK"):
        return
    try:
        os.makedirs(os.path.dirname(context.recorder), exist_ok=True)
        os.close(open_private(context.recorder))
    except OSError as error:
        context.notes.append(
            f"warning: PyTorch's flight recorder cannot write to {context.recorder}: "
            f"{error.strerror} (choose a folder with --log-dir)"
        )
