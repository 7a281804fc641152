"""The programs that run the steps of a build, and the choice of one for this host.

A new runtime is a module with a subclass of ``Runtime``, and one line in ``RUNTIMES``.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lumicontainer.errors import LumicontainerError, Problem
from lumicontainer.sandbox.runtimes.docker import Docker
from lumicontainer.sandbox.runtimes.namespaces import Namespaces
from lumicontainer.sandbox.runtimes.proot import PRoot
from lumicontainer.sandbox.runtimes.runtime import Runtime

RUNTIMES: Mapping[str, Callable[[], Runtime]]
RUNTIMES = {"namespaces": Namespaces, "proot": PRoot, "docker": Docker}
"""The fastest one first."""


class Choice(NamedTuple):
    """Hold the runtime of a build, and why this host cannot use the faster ones."""

    runtime: Runtime
    refusals: Mapping[str, Problem]

    def describe(self) -> str:
        """Return one line about it, and another one if a step of it lacks a limit."""
        refusals = self.refusals.items()
        rows = ((name, each.what, " ".join(each.why.split())) for name, each in refusals)
        why = "; ".join(": ".join(filter(None, row)) for row in rows)
        line = f"runtime: {self.runtime.name}" + (f" ({why})" if why else "")
        lacking = self.runtime.unlimited
        return f"{line}\nnot limited: {lacking}" if lacking else line


def usable(name: str) -> Runtime:
    """Return a runtime; raise ``HostError`` if this host cannot build by it."""
    runtime = RUNTIMES[name]()
    runtime.require_host()
    return runtime


def choose(name: str | None = None) -> Choice:
    """Return the named runtime, else the first that this host can use.

    Raises ``HostError`` if this host can use none: with the hint of the first, and all reasons.
    """
    refusals: dict[str, LumicontainerError] = {}
    for each in [name] if name else RUNTIMES:
        try:
            return Choice(usable(each), {n: e.problems[0] for n, e in refusals.items()})
        except LumicontainerError as error:
            refusals[each] = error
    first, *others = refusals.values()
    raise type(first)(*first.problems, *(problem for error in others for problem in error.problems))
