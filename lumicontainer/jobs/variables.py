"""Give a job the variables of this process, by a private file.

Slurm may store batch scripts and environments in its database.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from lumicontainer.core.render.jinja import fill

FILE = "variables.sh"
OPTIONS = ("--export=NIL", "--no-requeue")
"""The options of sbatch for such a job, which removes its file when it starts."""
_OF_THE_HOST = re.compile(
    r"SLURM_.*|BASH_FUNC_.*|TMPDIR|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS|HOSTNAME"
    r"|PWD|OLDPWD|SHLVL|_"
)
"""Variables that name what only this host, or the job around this process, has."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def write_variables(folder: Path) -> None:
    """Write the file that exports the variables, for a script that sources and removes it."""
    write_private(folder / FILE, fill("variables.sh.j2", variables=exported(os.environ)))


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read."""
    path.touch(mode=0o600)
    # A variable may hold any bytes.
    path.write_bytes(os.fsencode(text))


def exported(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job gets."""
    return {
        name: value
        for name, value in environment.items()
        if _NAME.fullmatch(name) and not _OF_THE_HOST.fullmatch(name)
    }
