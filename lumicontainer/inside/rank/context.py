"""The input of all decisions about one rank, and their results that are not variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..environment import Setting, is_number, kept, optional_number
from ..launch.launchers import NONE, SLURM, Launch
from ..node.hardware import Gpu, Node
from .options import DIRECT, Options


class Start(NamedTuple):
    """How ranks start: this process is one (DIRECT), or ``launcher`` starts ``workers`` here."""

    launcher: str
    why: str
    workers: int = 1

    def described(self) -> str:
        """Return a line for --print-env."""
        if self.launcher == DIRECT:
            return f"this process ({self.why})"
        return f"{self.workers} a node, by {self.launcher} ({self.why})"


class Binding(NamedTuple):
    """The processors of a rank; ``changed`` if lumi-entry has to bind it to them.

    ``cores`` are the processors without second hardware threads.
    """

    cpus: frozenset[int]
    cores: frozenset[int]
    changed: bool


class Context:
    """The environment, the launch, the node, the platform and the options of one rank.

    ``platform`` is the image's platform.json, empty without a platform. ``program`` are the words
    of the command line from the program on.
    """

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
        self.start = Start(DIRECT, "")
        self.warnings: list[str] = []
        """Printed by one rank."""
        self.notes: list[str] = []
        """Printed by this rank."""
        self.gpu: Gpu | None = None
        """The GPU of this rank, if it has exactly one."""
        self.sharers = 1
        """The number of ranks that use this GPU."""
        self.binding: Binding | None = None
        self.caches: list[str] = []
        """Folders to create before the start: the one that holds all others, then each cache."""
        self.recorder = ""
        """The folder to create for PyTorch's flight recorder."""

    def number(self, name: str) -> int | None:
        """Return a variable of this rank such as LOCAL_RANK, set by the launcher or by hand."""
        given, known = optional_number(self.env, name), self.launch.fact(name)
        by_hand = known is None or self.launch.name == NONE
        return given if by_hand and given is not None else known

    def cpus_per_task(self) -> int | None:
        """Return the number of processors of srun -c; None without it."""
        slurm = self.launch.name == SLURM
        return optional_number(self.env, "SLURM_CPUS_PER_TASK") if slurm else None

    def default(self, name: str, value: str | None, *, origin: str, why: str) -> Setting:
        """Return a setting that the user's variable overrides, even an empty one."""
        if name in self.env:
            return kept(
                self.env, name, "set already" if self.env[name] else "set to nothing; left so"
            )
        return Setting(name, value, origin=origin, why=why)

    def run_id(self) -> str:
        """Return the ids of the job and the step, such as ``1234.0``; empty without a job."""
        names = self.launch.ids or ("SLURM_JOB_ID",)
        ids = [self.env.get(name, "") for name in names]
        return ".".join(ids) if all(is_number(one) for one in ids) else ""

    def rank_stem(self) -> str:
        """Return the start of the names of this rank's files, such as ``1234.0-rank007``."""
        width = len(str((self.number("WORLD_SIZE") or 1) - 1))
        rank = f"rank{self.number('RANK') or 0:0{width}}"
        return f"{self.run_id()}-{rank}".lstrip("-")
