"""Say where PyTorch's flight recorder writes what each rank was doing when a job hung.

It writes when a collective times out, long after the start, to files whose names begin as it is
told; PyTorch adds the rank. The folder must be there, and must outlive the job.
"""

from __future__ import annotations

import os

from . import caches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context

_FOLDER = "flight-recorder"


def prefix(context: Context) -> tuple[str | None, str]:
    """Return what the names of the files begin with, and why there; None leaves it to PyTorch.

    They lie in the folder of ``--log-dir``, else in a folder of the user's own on /scratch, which
    is noted in ``context.recorder`` for ``make``.
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
    """Make the folder on /scratch; note where that fails, for the program runs without it."""
    try:
        os.makedirs(os.path.dirname(context.recorder), exist_ok=True)
        os.close(caches.open_private(context.recorder))
    except OSError as error:
        context.notes.append(
            f"warning: PyTorch's flight recorder cannot write to {context.recorder}: "
            f"{error.strerror} (name a folder with --log-dir)"
        )
