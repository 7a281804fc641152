"""The programs that build and run containers.

A new engine is a class with the methods of ``Engine``, and one line in ``ENGINES``.
"""

from collections.abc import Mapping
from typing import TypeAlias

from lumicontainer.engines.apptainer import (
    INSTANCE,
    INTERACTIVE,
    Apptainer,
    Singularity,
    StepMounts,
)
from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process

__all__ = ["ENGINES", "INSTANCE", "INTERACTIVE", "Engine", "StepMounts", "find_engine", "prefixed"]

_PREFIXES = ("APPTAINER", "SINGULARITY")

Engine: TypeAlias = Apptainer
ENGINES: dict[str, type[Engine]] = {"apptainer": Apptainer, "singularity": Singularity}


def prefixed(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an engine's process that set ``variables`` in its container.

    Unlike options, they are not readable by other users, and hold any text.
    """
    if not variables:
        return {}
    values = {f"{prefix}ENV_{name}": v for prefix in _PREFIXES for name, v in variables.items()}
    return values | {f"{prefix}_NO_EVAL": "1" for prefix in _PREFIXES}


def find_engine() -> Engine:
    """Return the engine of this host; raise ``HostError`` if it has none."""
    for name, engine in ENGINES.items():
        path = process.find(name)
        if path is not None:
            return engine(path)
    why = f"none of {', '.join(ENGINES)} is installed"
    hint = (
        "make engine (in a checkout), or ask your system's support for Apptainer; "
        "lumicontainer doctor lists what a build needs"
    )
    raise HostError(Problem("container engine not found", "PATH", why, hint))
