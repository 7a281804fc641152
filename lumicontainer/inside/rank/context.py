"""What the settings of a process are decided from."""

from __future__ import annotations

from ..environment import USER, Setting, is_number
from ..launch.launchers import NONE
from ..node.hardware import Node
from .options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..launch.launchers import Launch
    from ..node.hardware import Gpu
    from .affinity import Binding
    from .node_launcher import Start


class Context:
    """Hold the environment, what the launcher tells, the node, the platform and the options.

    ``platform`` is what the image's platform says as plain data (platform.json); a platform that
    says nothing is an empty one. ``program`` holds the words of the command line from the program
    on, ``start`` whether this process becomes it. ``warnings`` takes what is to be told once a run,
    ``notes`` what each rank tells on its own, ``caches`` the folders that are made before the
    start: the rank's own, and first the one that holds them all.
    """

    __slots__ = (
        "binding",
        "caches",
        "env",
        "gpu",
        "launch",
        "node",
        "notes",
        "options",
        "platform",
        "program",
        "recorder",
        "sharers",
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
        self.gpu: Gpu | None = None
        """The one that this rank computes on, where that is one alone."""
        self.sharers = 1
        """How many ranks compute on it."""
        self.binding: Binding | None = None
        self.caches: list[str] = []
        self.recorder = ""
        """The folder that is made for PyTorch's flight recorder."""

    def number(self, name: str) -> int | None:
        """Return what is known of this rank, such as LOCAL_RANK: from the launcher, or by hand."""
        given = self.env.get(name, "")
        known = self.launch.fact(name)
        by_hand = known is None or self.launch.name == NONE
        return int(given) if by_hand and is_number(given) else known

    def default(self, name: str, value: str | None, *, origin: str, why: str) -> Setting:
        """Return a setting that gives way to what the user set; an empty value is one too."""
        if name in self.env:
            why = "set already" if self.env[name] else "set to nothing; left so"
            return Setting(name, self.env[name], origin=USER, why=why)
        return Setting(name, value, origin=origin, why=why)

    def run_id(self) -> str:
        """Return what tells this run from every other one, as ``1234.0``; nothing off a cluster."""
        names = self.launch.ids or ("SLURM_JOB_ID",)
        ids = [self.env.get(name, "") for name in names]
        return ".".join(ids) if all(is_number(one) for one in ids) else ""

    def rank_stem(self) -> str:
        """Return the beginning of the names of this rank's files, as ``1234.0-rank007``."""
        width = len(str((self.number("WORLD_SIZE") or 1) - 1))
        rank = f"rank{self.number('RANK') or 0:0{width}}"
        return f"{self.run_id()}-{rank}".lstrip("-")
