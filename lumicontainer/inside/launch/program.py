"""Replace this process by the program, so that signals and exit codes pass unchanged."""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

from ..errors import LaunchError

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # a shell's exit codes
_REMOVED = "a folder that was removed"


def restore_signals() -> None:
    """Undo what Python does to signals at its start: a program inherits ignored signals."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def inherited() -> dict[str, str]:
    """Return the environment that this process was started with."""
    # In the C locale Python adds LC_CTYPE to its own (PEP 538); the program must not see it.
    env = dict(os.environ)
    if "LC_CTYPE" in env:
        with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as stream:
            if b"\0LC_CTYPE=" not in b"\0" + stream.read():
                del env["LC_CTYPE"]
    return env


def interpreter() -> str:
    """Return the Python for the program: of the active virtual environment, else the image's."""
    return activated(os.environ) or sys.executable or "python3"


def activated(env: Mapping[str, str]) -> str:
    """Return the Python of the active virtual environment, which is first on PATH, or ""."""
    # VIRTUAL_ENV alone proves nothing: engines pass on the host's, but not the host's PATH.
    own = env.get("VIRTUAL_ENV", "")
    python = find("python3", env) if own else ""
    with contextlib.suppress(OSError):  # one of the folders does not exist
        if python and os.path.samefile(os.path.join(own, "bin"), os.path.dirname(python)):
            return python
    return ""


def unusable(env: Mapping[str, str]) -> str:
    """Return a warning if the Python of the active virtual environment cannot run here."""
    own = env.get("VIRTUAL_ENV", "")
    folder = os.path.join(own, "bin")
    active = own and folder in env.get("PATH", "").split(":")
    if not active or os.access(os.path.join(folder, "python3"), os.X_OK):
        return ""
    return (
        f"VIRTUAL_ENV={own} is active, but its python3 cannot run here: the image's Python runs "
        "the program (create it in the container: python3 -m venv --system-site-packages)"
    )


def find(name: str, env: Mapping[str, str]) -> str:
    """Return the path of the program ``name`` on PATH or in ROCm's folder, or ""."""
    folders = [*filter(None, env.get("PATH", "").split(":")), "/opt/rocm/bin"]
    return shutil.which(name, path=":".join(folders)) or ""


def check_readable(script: str, other: str = "") -> None:
    """Raise LaunchError if the script cannot be read; ``other`` is the hint if it is missing."""
    if os.access(script, os.R_OK):
        return
    if os.path.exists(script):
        what, why, hint = "cannot read the script", "permission denied", f"chmod a+r {script}"
    else:
        what, why = "script not found:", "there is no file of this name in the container"
        hint = "use its path in the container, and bind its folder; a command follows '--'"
        hint = other or hint
    local = _may_be_local(script)
    raise LaunchError(f"{what} '{script}'", where=here(), why=why, hint=hint, local=local)


def _may_be_local(path: str) -> bool:
    """Return whether ``path`` may differ on other nodes; a folder that exists is shared."""
    folder = os.path.dirname(os.path.abspath(path)) if path[:1] == "/" else "."
    own = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/")
    return f"{folder}/".startswith(own) or not os.path.isdir(folder)


def become(command: list[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by ``command``, which is searched on PATH if its name has no slash.

    Raises LaunchError, with a shell's exit code, if the command is not found or cannot be run.
    """
    name, code = command[0], _NOT_FOUND
    is_path = "/" in name
    try:
        os.execvpe(name, command, env)  # noqa: S606 - no shell: the arguments pass unchanged
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: an empty name
        if is_path and os.path.exists(name):
            what = f"cannot run '{name}': its interpreter is missing"
            why = "the first line of the file names a program that is not in the container"
            hint = "correct the first line of the file"
        else:
            what = f"command not found: '{name}'"
            why = "there is no program of this name in the container"
            hint = "install it in the image, or use its path in the container"
    except OSError as error:
        what, code = f"cannot run '{name}': {error.strerror}", _NOT_EXECUTABLE
        why = "the system refuses to execute the file"
        hint = "a script needs chmod +x and a first line like #!/bin/sh"
    where = here() if is_path or code != _NOT_FOUND else f"PATH={env.get('PATH', '')}"
    local = is_path and _may_be_local(name)
    raise LaunchError(what, where=where, why=why, hint=hint, code=code, local=local)


def here() -> str:
    """Return the working folder, for a message."""
    try:
        return os.getcwd()
    except OSError:
        return _REMOVED


def absolute(path: str) -> str:
    """Return a path in its absolute form, for a message."""
    try:
        return os.path.abspath(path)
    except OSError:
        return f"{os.path.normpath(path)} in {_REMOVED}"
