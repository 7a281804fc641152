"""What the settings of a process are decided from."""

from __future__ import annotations

from .node import Node
from .options import Options
from .setting import USER, Setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .launch import Start
    from .launchers import Launch


class Context:
    """Hold the environment, what the launcher tells, the node, the platform and the options.

    ``platform`` is what the image's platform says as plain data (platform.json); a platform that
    says nothing is an empty one. ``program`` holds the words of the command
    line from the program on, ``start`` whether this process becomes it. ``warnings`` takes what is
    to be told once a run, ``notes`` what each rank tells on its own.
    """

    __slots__ = (
        "env",
        "launch",
        "node",
        "notes",
        "options",
        "platform",
        "program",
        "start",
        "warnings",
    )
    start: Start

    def __init__(
        self,
        env: Mapping[str, str],
        launch: Launch,
        *,
        node: Node | None = None,
        platform: Mapping[str, Any] | None = None,
        options: Options | None = None,
        program: Sequence[str] = (),
    ) -> None:
        self.env = env
        self.launch = launch
        self.node = node or Node()
        self.platform = platform or {}
        self.options = options or Options()
        self.program = program
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def default(self, name: str, value: str | None, *, origin: str, why: str) -> Setting:
        """Return a setting that gives way to what the user set."""
        if self.env.get(name):
            return Setting(name, self.env[name], origin=USER, why="set already")
        return Setting(name, value, origin=origin, why=why)
