"""The programs that build and run containers.

A new engine is a module of its name, whose ``ENGINE`` is a class, and its name in
``constants.ENGINES``.
``tests/contracts/test_engines.py`` proves it.
"""

from collections.abc import Mapping
from importlib import import_module

from lumicontainer import constants
from lumicontainer.constants import ENGINE_PREFIXES
from lumicontainer.engines.engine import INSTANCE, INTERACTIVE, Engine, StepMounts
from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process

__all__ = ["ENGINES", "INSTANCE", "INTERACTIVE", "Engine", "StepMounts", "find_engine", "prefixed"]

ENGINES: Mapping[str, type[Engine]]
ENGINES = {name: import_module(f"{__name__}.{name}").ENGINE for name in constants.ENGINES}
"""The preferred one first."""


def prefixed(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an engine's process that set ``variables`` in its container.

    Unlike options, they are not readable by other users, and hold any text.
    """
    if not variables:
        return {}
    values: dict[str, str] = {}
    for prefix in ENGINE_PREFIXES:
        values |= {f"{prefix}ENV_{name}": value for name, value in variables.items()}
        values[f"{prefix}_NO_EVAL"] = "1"
    return values


def find_engine() -> Engine:
    """Return the engine of this host; raise ``HostError`` if it has none."""
    for name, engine in ENGINES.items():
        path = process.find(name)
        if path is not None:
            return engine(path)
    why = f"neither {' nor '.join(ENGINES)} is installed"
    hint = (
        "make engine (in a checkout), or ask your site's support for Apptainer; "
        "lumicontainer doctor lists what a build needs"
    )
    raise HostError(Problem("container engine not found", "PATH", why, hint))
