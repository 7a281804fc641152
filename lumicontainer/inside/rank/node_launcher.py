"""Start the ranks of a node by a launcher, where Slurm started one task for all of them.

The launcher starts lumi-entry again, with the same words, once a rank; each of these then decides
for its own rank as under ``srun``. So the process that starts a launcher decides nothing but where
the ranks meet: bound to the cores of one rank, or shown one GPU, all of them would share it.

torchrun and what is built on it meet by its static rendezvous: the first node's agent is told to be
it (``--node-rank 0``), and nothing is guessed. The other one, c10d, compares host names to find out
which agent is to listen, and that fails where a node has several names or interfaces.
"""

from __future__ import annotations

import os
import sys

from ..environment import is_number
from ..errors import LaunchError
from ..launch.launchers import DEEPSPEED, NONE, SLURM, TORCHRUN, one_a_node
from ..launch.program import interpreter
from .gpus import Visible
from .options import misused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..entry.decide import Decision
    from ..launch.launchers import Launch
    from .context import Context

AUTO = "auto"
DIRECT = "direct"
ACCELERATE = "accelerate"

_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
    "horovodrun",
)
"""Programs that start ranks themselves."""

STARTED = "LUMI_ENTRY_LAUNCHER"
"""Tells a rank which launcher lumi-entry started: a lone rank is told nothing by accelerate."""

_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class Start:
    """Hold how the ranks come to be: ``direct``, or ``workers`` by a launcher; and why."""

    __slots__ = ("launcher", "why", "workers")

    def __init__(self, launcher: str, why: str, workers: int = 1) -> None:
        self.launcher = launcher
        self.workers = workers
        self.why = why

    def described(self) -> str:
        """Return a line that tells it."""
        if self.launcher == DIRECT:
            return f"this process ({self.why})"
        return f"{self.workers} a node, by {self.launcher} ({self.why})"


def choose(context: Context) -> Start:
    """Decide how the ranks come to be; tell the user where a launcher was not asked for.

    Raises LaunchError where a launcher was asked for and there are several tasks a node.
    """
    launch, wanted = context.launch, context.options.launcher
    processes = _processes(context)
    by = launch.name if launch.name in (TORCHRUN, DEEPSPEED) else context.env.get(STARTED)
    if by:
        return Start(DIRECT, f"{by} started it")
    if wanted == DIRECT:
        if processes:
            raise misused("--nproc goes with a launcher, not with --launcher direct")
        return Start(DIRECT, "--launcher direct")
    gpus = visible_gpus(context)
    if wanted == AUTO and not processes:
        if not _one_for_all(context, gpus):
            return Start(DIRECT, "the launcher makes the ranks")
        context.warnings.append(
            f"Slurm started one task a node, and each has {gpus} GPUs: torchrun starts {gpus} "
            "ranks a node (one only with --launcher direct)"
        )
        return Start(TORCHRUN, f"one task a node with {gpus} GPUs", gpus)
    _check_alone(context.env, launch)
    why = f"--nproc {processes}" if processes else f"{gpus} GPUs" if gpus else "no GPU"
    return Start(TORCHRUN if wanted == AUTO else wanted, why, processes or gpus or 1)


def starts_ranks(program: Sequence[str]) -> bool:
    """Tell whether a program is one that starts ranks itself."""
    kind, name = [*program[:2], "", ""][:2]
    return (
        name if kind == "-m" else os.path.basename(name if kind == "--" else kind)
    ) in _LAUNCHERS


def visible_gpus(context: Context) -> int:
    """Return how many GPUs this process may use: what it sees, else what Slurm gave."""
    env = context.env
    if context.platform.get("accelerator") == "rocm":
        return len(Visible(context).by_hip)
    lists = [env[name] for name in _VISIBLE if env.get(name)]
    if lists:
        return min(len(text.split(",")) for text in lists)
    given = env.get("SLURM_GPUS_ON_NODE", "")
    return int(given) if is_number(given) else 0


def command(decision: Decision, words: Sequence[str]) -> list[str]:
    """Return what starts the ranks of this node, each as lumi-entry with its own ``words``."""
    context = decision.context
    inside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    supervise = os.path.join(inside, "launch/supervise.py")
    module, flags = _MODULES[context.start.launcher](context, _place(decision))
    # Without --, the launcher would take what looks like an option of its own for one.
    return [interpreter(), supervise, module, *flags, *_more(context), "--", sys.argv[0], *words]


def local_rank_argument(context: Context, command: list[str]) -> list[str]:
    """Give the program ``--local_rank``, as DeepSpeed's launcher gives it to a script."""
    ours = context.launch.name == DEEPSPEED and context.options.launcher == DEEPSPEED
    if not ours or "--no_local_rank" in _more(context):
        return command
    program = {"--": 1, "-m": 3}.get(next(iter(context.program), ""), 2)
    argument = f"--local_rank={context.launch.fact('LOCAL_RANK')}"
    return [*command[:program], argument, *command[program:]]


def _processes(context: Context) -> int:
    text = str(context.options.nproc or "")
    if text and not (is_number(text) and 0 < int(text) <= 4096):
        raise misused(f"--nproc is a number of processes, not '{text}'")
    return int(text or 0)


def _one_for_all(context: Context, gpus: int) -> bool:
    """Tell whether one task of Slurm was given several GPUs, and the program starts no ranks."""
    return (
        context.launch.name == SLURM
        and gpus > 1
        and list(context.program[:1]) != ["--"]
        and not starts_ranks(context.program)
        and one_a_node(context.env, context.launch)
    )


def _check_alone(env: Mapping[str, str], launch: Launch) -> None:
    if one_a_node(env, launch):
        return
    if launch.name == NONE:
        raise LaunchError(
            "the ranks are numbered by hand, and a launcher is to make them as well",
            where=f"WORLD_SIZE={env.get('WORLD_SIZE')}",
            why="a launcher numbers the ranks that it starts",
            hint="unset RANK and WORLD_SIZE, or use --launcher direct",
        )
    raise LaunchError(
        "a launcher is to make the ranks, but there are several tasks a node already",
        where=f"launched by {launch.title}, {launch.fact('WORLD_SIZE')} tasks",
        why="each task would start all of its node's ranks once more",
        hint="start one task a node (srun --ntasks-per-node=1), or use --launcher direct",
    )


def _place(decision: Decision) -> list[str]:
    """Return the number of nodes, the rank of this one, and address and port of the first one."""
    told = {setting.name: setting.value for setting in decision.settings}
    nodes, rank = (decision.launch.fact(name) for name in ("WORLD_SIZE", "RANK"))
    return [str(word) for word in (nodes, rank, told["MASTER_ADDR"], told["MASTER_PORT"])]


def _more(context: Context) -> list[str]:
    return str(context.options.launcher_args or "").split()


def _torchrun(context: Context, place: list[str]) -> tuple[str, list[str]]:
    nodes, rank, address, port = place
    name = ".".join(context.env[name] for name in context.launch.ids)
    flags = [
        *("--nnodes", nodes, "--node-rank", rank, "--nproc-per-node", str(context.start.workers)),
        *("--rdzv-backend", "static", "--master-addr", address, "--master-port", port),
        *(("--rdzv-id", name) if name else ()),
        "--no-python",
    ]
    return "torch.distributed.run", flags


def _accelerate(context: Context, place: list[str]) -> tuple[str, list[str]]:
    nodes, rank, address, port = place
    total = int(nodes) * context.start.workers
    flags = [
        *("--num_machines", nodes, "--machine_rank", rank, "--num_processes", str(total)),
        *("--main_process_ip", address, "--main_process_port", port, "--same_network"),
        # Its own default starts the ranks of several nodes over ssh.
        *("--deepspeed_multinode_launcher", "standard", "--no_python"),
    ]
    # A configuration says itself what it is for; without one, CPUs alone would make one process.
    if not any(word.startswith(_KINDS) for word in _more(context)):
        flags += ["--mixed_precision", "no", "--dynamo_backend", "no"]
        flags += ["--multi_gpu"] if total > 1 else []
    return "accelerate.commands.launch", flags


_KINDS = ("--config_file", "--use_", "--multi_gpu", "--cpu", "--tpu")


def _deepspeed(context: Context, place: list[str]) -> tuple[str, list[str]]:
    import binascii  # noqa: PLC0415 - for this launcher alone

    nodes, rank, address, port = place
    ranks = list(range(context.start.workers))
    # The names of the nodes are keys only, in the order of their ranks.
    world = ", ".join(f'"{node}": {ranks}' for node in range(int(nodes)))
    info = binascii.b2a_base64(("{" + world + "}").encode(), newline=False).decode()
    flags = [
        *("--world_info", info.replace("+", "-").replace("/", "_"), "--node_rank", rank),
        *("--master_addr", address, "--master_port", port, "--no_python", "--no_local_rank"),
    ]
    return "deepspeed.launcher.launch", flags


_MODULES: dict[str, Callable[[Context, list[str]], tuple[str, list[str]]]] = {
    TORCHRUN: _torchrun,
    ACCELERATE: _accelerate,
    DEEPSPEED: _deepspeed,
}
