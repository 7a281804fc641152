"""The input of all decisions about one rank, and their results that are not variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..environment import Setting, is_number, kept, optional_number
from ..launch.launchers import DEEPSPEED, FIRST_SPECIAL_STEP, NONE, SLURM, TORCHRUN, recognize
from ..node.hardware import Gpu, Node

OMP = "OMP_NUM_THREADS"
AUTO, DIRECT = "auto", "direct"
NODE_LAUNCHERS = (TORCHRUN, "accelerate", DEEPSPEED)
"""The launchers that lumi-entry can start for the ranks of a node."""
LAUNCHERS = (AUTO, DIRECT, *NODE_LAUNCHERS)
VISIBILITIES = ("hip", "rocr", "none")
PROFILERS = ("rocprofv3", "rocprof", "torch")


class Options(NamedTuple):
    """The value of each option, by default as without it. ``lumi-entry --help`` explains them."""

    launcher: str = AUTO
    nproc: int = 0
    launcher_args: str = ""
    print_env: bool = False
    json: bool = False
    gpu_visibility: str = "none"
    allow_gpu_sharing: bool = False
    no_bind: bool = False
    affinity_report: bool = False
    log_dir: str = ""
    profile: str = ""
    profiler: str = ""
    smi: bool = False
    preflight: bool = False
    remove_caches: bool = False


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
    of the command line from the program on. Raises LaunchError if the variables of the launch are
    invalid.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        node: Node | None = None,
        platform: Mapping[str, Any] | None = None,
        options: Options | None = None,
        program: Sequence[str] = (),
    ) -> None:
        self.env, self.launch, self.program = env, recognize(env), program
        self.node = node or Node()
        self.platform, self.options = platform or {}, options or Options()
        self.start = Start(DIRECT, "")
        self.warnings: list[str] = []  # printed by one rank
        self.notes: list[str] = []  # printed by this rank
        self.gpu: Gpu | None = None  # the GPU of this rank, if it has exactly one
        self.sharers = 1  # the number of ranks that use this GPU
        self.binding: Binding | None = None
        # Folders to create before the start: each variable's, by the folder that holds it.
        self.caches: dict[str, dict[str, str]] = {}
        self.recorder = ""  # the folder to create for PyTorch's flight recorder

    def number(self, name: str) -> int | None:
        """Return a variable of this rank such as LOCAL_RANK, set by the launcher or by hand."""
        value, known = optional_number(self.env, name), self.launch.fact(name)
        by_hand = known is None or self.launch.name == NONE
        return value if by_hand and value is not None else known

    def cpus_per_task(self) -> int | None:
        """Return the number of processors of srun -c; None without it."""
        slurm = self.launch.name == SLURM
        return optional_number(self.env, "SLURM_CPUS_PER_TASK") if slurm else None

    def default(self, name: str, value: str | None, *, origin: str, why: str) -> Setting:
        """Return a setting that the user's variable overrides, even an empty one."""
        if name in self.env:
            why = "set already" if self.env[name] else "set to nothing; left so"
            return kept(self.env, name, why)
        return Setting(name, value, origin=origin, why=why)

    def run_id(self) -> str:
        """Return the ids of the job and the step, such as ``1234.0``; empty without a job."""
        ids = [self.env.get(name, "") for name in self.launch.ids or ("SLURM_JOB_ID",)]
        step = self.env.get("SLURM_STEP_ID", "")
        # torchrun and DeepSpeed leave their ranks the variables of the step that they run in.
        if not self.launch.ids and is_number(step) and int(step) < FIRST_SPECIAL_STEP:
            ids.append(step)
        return ".".join(ids) if all(is_number(one) for one in ids) else ""

    def rank_stem(self) -> str:
        """Return the start of the names of this rank's files, such as ``1234.0-rank007``."""
        width = len(str((self.number("WORLD_SIZE") or 1) - 1))
        rank = f"rank{self.number('RANK') or 0:0{width}}"
        return f"{self.run_id()}-{rank}".lstrip("-")
