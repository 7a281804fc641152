"""Instances of images, as the objects of spython.

spython calls ``singularity``, which is Apptainer on hosts that have a link of this name. Its own
start prints errors and raises none. Its ``execute`` gives a command no variables of the instance,
drops empty words, and does not end the program of a stream (all in 0.3.14).
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from spython.main import Client

from lumicontainer.api.execute import Executes
from lumicontainer.engines import ENGINES, INSTANCE
from lumicontainer.errors import HostError, Problem
from lumicontainer.system import budget, process
from lumicontainer.verify.local import Host


class Instance(Executes, Client.instance):  # type: ignore[misc]
    """Be an instance of spython with the binds and the variables of the platform."""

    def __init__(self, host: Host, name: str | None, binds: Sequence[str]) -> None:
        Client.instance.__init__(self, str(host.image), start=False, name=name)
        self._host = host._replace(engine=ENGINES["singularity"](_program()))
        self.cmd = self._host.command([self.name], INSTANCE, binds)
        try:
            done = process.in_new_session(self.cmd, limits=budget.ENGINE)
        except BaseException:
            self.end()
            raise
        if done.returncode:
            why, hint = process.last_lines(done.stderr), "choose another name if it is in use"
            raise HostError(Problem("the instance does not start", str(host.image), why, hint))
        self._update_metadata()

    def command(self, words: Sequence[str], way: str = "exec") -> list[str]:
        """Return the engine's command that runs ``words`` in the instance."""
        return self._host.engine.execute(
            self.get_uri(), words, binds=(), environment=self._host.variables, way=way
        )

    def end(self) -> None:
        """End the instance, if it still runs, and the programs in it."""
        with contextlib.suppress(HostError):
            process.run_to_end(
                [str(_program()), "instance", "stop", self.name], limits=budget.ENGINE
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _program() -> Path:
    program = process.find("singularity")
    if program is None:
        why = "spython, which has the instances, calls the engine by this name"
        hint = "link it to your apptainer, in a folder of PATH"
        raise HostError(Problem("singularity not found", "PATH", why, hint))
    return program
