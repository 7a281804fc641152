"""Become the program: the last thing that lumi-entry does, so signals and exit codes pass."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes 4 ms more
import os
import sys

from ..errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
"""What a shell exits with in these two cases."""


def restore_signals() -> None:
    """Undo what Python does to signals at its start: ignored ones would stay so in the program."""
    for name in ("SIGPIPE", "SIGXFSZ"):
        _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def inherited() -> dict[str, str]:
    """Return the environment as it was handed over.

    Python adds LC_CTYPE to its own in the C locale (PEP 538); the program shall not see that.
    """
    env = dict(os.environ)
    if env.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        try:
            with open("/proc/self/environ", "rb") as stream:
                handed_over = stream.read().split(b"\0")
        except OSError:
            return env
        if not any(entry.startswith(b"LC_CTYPE=") for entry in handed_over):
            del env["LC_CTYPE"]
    return env


def interpreter() -> str:
    """Return the Python that runs the program: an active virtual environment's, else the image's.

    The image's runs lumi-entry as well.
    """
    return activated(os.environ) or sys.executable or "python3"


def activated(env: Mapping[str, str]) -> str:
    """Return the Python of the virtual environment that is active; nothing where none is.

    It is the first on PATH then. VIRTUAL_ENV alone tells of none: engines hand on the host's, and
    not the host's PATH.
    """
    own = env.get("VIRTUAL_ENV", "")
    python = find("python3", env) if own else ""
    bin_folder = os.path.realpath(os.path.join(own, "bin"))
    return python if os.path.realpath(os.path.dirname(python)) == bin_folder else ""


def unusable(env: Mapping[str, str]) -> str:
    """Return what is wrong with an active virtual environment whose Python cannot run here."""
    own = env.get("VIRTUAL_ENV", "")
    folder = os.path.join(own, "bin")
    if not own or folder not in env.get("PATH", "").split(":"):
        return ""
    if os.access(os.path.join(folder, "python3"), os.X_OK):
        return ""
    return (
        f"VIRTUAL_ENV={own} is active, and its python3 cannot run here: the image's runs the "
        "program (make the environment in the container: python3 -m venv --system-site-packages)"
    )


def find(name: str, env: Mapping[str, str]) -> str:
    """Return the place of the program ``name``: on PATH, else where ROCm has it; or nothing."""
    for folder in [*env.get("PATH", "").split(":"), "/opt/rocm/bin"]:
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def check_readable(script: str) -> None:
    """Raise LaunchError where the script is not there or cannot be read."""
    if os.access(script, os.R_OK):
        return
    if os.path.exists(script):
        raise LaunchError(
            f"cannot read the script '{script}'",
            where=_here(),
            why="this user may not read it",
            hint=f"chmod a+r {script}",
            local=_may_be_local(script),
        )
    raise LaunchError(
        f"no such script: '{script}'",
        where=_here(),
        why="the container holds no file of this name",
        hint="name it as the container sees it, and bind its folder; a command follows '--'",
        local=_may_be_local(script),
    )


def _may_be_local(path: str) -> bool:
    """Tell whether other nodes may see something else at ``path``.

    A folder that is there is a shared one, or the image's; what it lacks, it lacks everywhere.
    """
    folder = os.path.dirname(os.path.abspath(path)) if path[:1] == "/" else "."
    own = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/")
    return f"{folder}/".startswith(own) or not os.path.isdir(folder)


def become(command: list[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by ``command``, looked for on PATH where its name holds no slash.

    Raises LaunchError, with the exit code of a shell, where there is no such command or the system
    refuses to run it.
    """
    name = command[0]
    local = "/" in name and _may_be_local(name)
    try:
        os.execvpe(name, command, env)  # noqa: S606 - no shell: the arguments arrive as they are
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: an empty name
        if "/" in name and os.path.exists(name):
            raise LaunchError(
                f"cannot run '{name}': its interpreter is missing",
                where=_here(),
                why="its first line names a program that is not in the container",
                hint="hint the first line of the file",
                code=_NOT_FOUND,
                local=local,
            ) from None
        raise LaunchError(
            f"command not found: '{name}'",
            where=_here() if "/" in name else f"PATH={env.get('PATH', '')}",
            why="the container holds no program of this name there",
            hint="install it in the image, or name it as the container sees it",
            code=_NOT_FOUND,
            local=local,
        ) from None
    except OSError as error:
        raise LaunchError(
            f"cannot run '{name}': {error.strerror}",
            where=_here(),
            why="the file is there, and the system refuses to execute it",
            hint="a script needs chmod +x and a first line like #!/bin/sh",
            code=_NOT_EXECUTABLE,
            local=local,
        ) from None


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "a folder that is gone"
