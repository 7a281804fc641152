"""A shell of ``srun --pty`` in which the other tasks have ended is recognized."""

import os
import pty
import select
import sys
from pathlib import Path

import pytest

from .. import seen
from ..conftest import PATH, Env

pytestmark = pytest.mark.slow

SHELL = ("bash", "--norc", "--noprofile", "-i")
PTY = {**seen.srun(0), "SLURM_PTY_PORT": "40000"}


def typed(command: str, env: Env) -> str:
    """Return what an interactive shell in a new terminal prints for a command."""
    pid, terminal = pty.fork()
    if not pid:
        os.execvpe(SHELL[0], SHELL, {"PATH": PATH, "PS1": "", **env})
    os.write(terminal, f"{command}; exit\n".encode())
    printed = b""
    while select.select([terminal], [], [])[0]:
        try:
            printed += os.read(terminal, 65536)
        except OSError:  # the shell has closed the terminal
            break
    os.waitpid(pid, 0)
    return printed.decode()


@pytest.mark.parametrize(
    ("start", "env", "warned"),
    [
        ("", PTY, True),
        ("", seen.srun(0), False),
        ("", {**PTY, **seen.task(1, 1, 0)}, False),
        ("exec ", PTY, False),
    ],
    ids=["rank 0", "no --pty", "another rank", "the task itself"],
)
def test_only_what_runs_in_the_shell_of_several_tasks_warns(
    launcher: Path, start: str, env: Env, warned: bool
) -> None:
    printed = typed(f"{start}{sys.executable} {launcher} -- true", env)
    assert ("this shell of srun --pty is one of 4 tasks" in printed) == warned, printed
