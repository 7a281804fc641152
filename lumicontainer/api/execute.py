"""Run commands in containers from Python."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, overload

from lumicontainer.engines import prefixed
from lumicontainer.system import budget, process


class Executes(ABC):
    """Run commands by an engine's command, in a process group of their own."""

    @abstractmethod
    def command(self, words: Sequence[str], way: str = "exec") -> list[str]:
        """Return the engine's command that runs ``words``; ``way`` is that of ``Engine``."""

    @overload
    def execute(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stream: Literal[False] = False,
    ) -> process.Finished: ...
    @overload
    def execute(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stream: Literal[True],
    ) -> Iterator[str]: ...
    def execute(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> process.Finished | Iterator[str]:
        """Run a command; return its ``returncode``, ``stdout`` and ``stderr``.

        With ``stream`` yield each line of its stdout at once, with its end; then raise
        ``ProgramError``, with the last lines of its stderr, if it failed. The command gets the
        environment of this process and ``environment``.
        """
        env = {**os.environ, **prefixed(environment or {})}
        started = self.command(command)
        if stream:
            return process.lines(started, env=env, shown=command)
        return process.in_new_session(started, env=env, limits=budget.USER)
