"""Recognize a shell in which only one of a step's tasks goes on."""

import os
from collections.abc import Iterator, Mapping

from .launchers import SLURM, Launch


def of_pty(env: Mapping[str, str], launch: Launch) -> Iterator[str]:
    """Yield a warning if this process is of the shell of ``srun --pty`` with several tasks."""
    tasks = launch.fact("WORLD_SIZE") or 1
    alone = launch.name == SLURM and "SLURM_PTY_PORT" in env and tasks > 1
    if alone and launch.fact("RANK") == 0 and _is_job_of_shell():
        yield (
            f"this shell of srun --pty is one of {tasks} tasks, and the others have ended without "
            f"input: rank 0 would wait for them. Start all {tasks} in this shell by "
            f"srun --overlap -n{tasks} …, or one process by env -u SLURM_STEP_ID …"
        )


def _is_job_of_shell() -> bool:
    # Slurm gives a task with --pty its own session. A shell with job control moves each command to
    # its own process group.
    return os.getpgrp() != os.getsid(0) and any(map(os.isatty, (0, 1, 2)))
