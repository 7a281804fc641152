"""Start a launcher for the ranks of a node, if Slurm started one task for all of them.

The launcher starts lumi-entry once a rank, with the same words; each of these then decides for its
own rank, as under ``srun``. The process that starts the launcher decides only MASTER_ADDR and
MASTER_PORT: if it were bound to cores or saw one GPU, all of its ranks would share these.
"""

import base64
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ..environment import Setting, optional_number
from ..errors import UNFIT, LaunchError, misused
from ..launch.launchers import DEEPSPEED, NONE, SLURM, TORCHRUN, Launch, one_a_node
from ..launch.program import interpreter
from .context import AUTO, DIRECT, OMP, Context, Start
from .gpus import CUDA, GRANTED, HIP, OF_STEP, ROCR, Visible

# Programs and modules that start ranks.
_LAUNCHERS = (
    *("torchrun", "torch.distributed.run", "torch.distributed.launch", "horovodrun"),
    *("accelerate", "accelerate.commands.launch"),
    *("deepspeed", "deepspeed.launcher.runner", "deepspeed.launcher.launch"),
)
_TOTAL = "SLURM_GPUS"  # set by sbatch --gpus: the GPUs of all nodes
# Set for ranks of a launcher that lumi-entry started: accelerate sets nothing for a lone rank.
STARTED = "LUMI_ENTRY_LAUNCHER"
# The OMP_NUM_THREADS that lumi-entry gave such a launcher, which is not the user's: it is decided
# before any rank is bound.
SHARE = "LUMI_ENTRY_THREADS"
# The pid of the launcher, with which its ranks end.
AGENT = "LUMI_ENTRY_AGENT"


def choose(context: Context) -> Start:
    """Decide how the ranks start; warn if that is by a launcher that the user did not ask for.

    Raises LaunchError if the user asked for a launcher, and there are several tasks a node; and if
    this node would start fewer ranks than the others.
    """
    launch, chosen, processes = context.launch, context.options.launcher, context.options.nproc
    by = launch.name if launch.name in (TORCHRUN, DEEPSPEED) else context.env.get(STARTED)
    if by:
        return Start(DIRECT, f"{by} started it")
    if chosen == DIRECT:
        if processes:
            raise misused("--nproc needs a launcher, but --launcher is direct")
        return Start(DIRECT, "--launcher direct")
    gpus, lost = _visible_gpus(context), _lost_gpus(context)
    if chosen == AUTO and not processes:
        if not _one_for_all(context, gpus + lost):
            return Start(DIRECT, "the launcher makes the ranks")
        _check_whole(context, lost)
        context.warnings.append(
            f"Slurm started one task a node, and each has {gpus} GPUs: torchrun starts {gpus} "
            "ranks a node (--launcher direct starts one)"
        )
        return Start(TORCHRUN, f"one task a node with {gpus} GPUs", gpus)
    _check_alone(context.env, launch)
    if not processes:
        _check_whole(context, lost)
        if chosen == DEEPSPEED:
            _check_even(context)
    why = f"--nproc {processes}" if processes else f"{gpus} GPUs" if gpus else "no GPU"
    return Start(TORCHRUN if chosen == AUTO else chosen, why, processes or gpus or 1)


def starts_ranks(program: Sequence[str]) -> bool:
    """Return whether a program starts ranks itself."""
    kind, name = [*program[:2], "", ""][:2]
    if kind == "-m":
        return name in _LAUNCHERS
    return os.path.basename(name if kind == "--" else kind) in _LAUNCHERS


def _visible_gpus(context: Context) -> int:
    env = context.env
    if context.platform.get("accelerator") == "rocm":
        return len(Visible(context).by_hip)
    lists = [env[name] for name in (ROCR, HIP, CUDA) if env.get(name)]
    if lists:
        return min(len(text.split(",")) for text in lists)
    return optional_number(env, GRANTED) or 0


def _lost_gpus(context: Context) -> int:
    """Return how many of the GPUs that Slurm granted here the kernel does not show, if any."""
    if context.platform.get("accelerator") != "rocm":
        return 0
    shown, granted = len(Visible(context).by_kernel), optional_number(context.env, GRANTED) or 0
    # A step without GPUs (--gres=none) may inherit the number of its job, but no list of them.
    of_step = shown or context.env.get(ROCR, context.env.get(OF_STEP, ""))
    # A node without GPUs starts one rank.
    return granted - shown if of_step and max(shown, 1) < granted else 0


def _check_whole(context: Context, lost: int) -> None:
    if not lost:
        return
    granted, host = context.env[GRANTED], os.uname().nodename
    what = f"{lost} of the {granted} GPUs that Slurm granted cannot be used"
    why = "this node would start fewer ranks than the others, which would wait for them"
    hint = f"leave the node out (sbatch --exclude={host}), or set the number of ranks by --nproc"
    if lost == int(granted):
        hint = f"check that /sys and /dev/dri are in the container (--rocm); if so, {hint}"
    raise LaunchError(what, f"{GRANTED}={granted} on {host}", why, hint, code=UNFIT, local=True)


def _check_even(context: Context) -> None:
    """Raise LaunchError if Slurm's variables show that nodes have other numbers of GPUs."""
    env, here = context.env, optional_number(context.env, GRANTED)
    # sbatch --gpus accepts a type before the number.
    total = optional_number({_TOTAL: env.get(_TOTAL, "").rpartition(":")[2]}, _TOTAL)
    nodes = optional_number(env, "SLURM_JOB_NUM_NODES")
    if "SLURM_GPUS_PER_NODE" in env or context.launch.fact("WORLD_SIZE") == 1:
        return
    if here is None or total is None or nodes is None or total == here * nodes:
        return
    what = f"this node has {here} of the job's {total} GPUs, and others have another number"
    where = f"{_TOTAL}={env[_TOTAL]}, SLURM_JOB_NUM_NODES={nodes}, {GRANTED}={here}"
    why = "DeepSpeed's launcher starts the same number of ranks on each node"
    hint = "use sbatch --gpus-per-node=8, or set the number of ranks by --nproc"
    raise LaunchError(what, where, why, hint, local=True)


def marks(launcher: str, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which each rank knows what lumi-entry gave its launcher."""
    # The launcher replaces this process.
    known = {STARTED: launcher, AGENT: str(os.getpid())}
    return {**known, **({SHARE: changes[OMP]} if OMP in changes else {})}


def command(context: Context, settings: Sequence[Setting], words: Sequence[str]) -> list[str]:
    """Return the command that starts this node's ranks, each as lumi-entry with ``words``."""
    inside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    supervise = os.path.join(inside, "launch/supervise.py")
    values = {setting.name: setting.value for setting in settings}
    nodes, rank = (context.launch.fact(name) for name in ("WORLD_SIZE", "RANK"))
    place = [str(each) for each in (nodes, rank, values["MASTER_ADDR"], values["MASTER_PORT"])]
    module, flags = _MODULES[context.start.launcher](context, place)
    # Without --, the launcher would parse options of lumi-entry.
    return [interpreter(), supervise, module, *flags, *_more(context), "--", sys.argv[0], *words]


def local_rank_argument(context: Context, command: list[str]) -> list[str]:
    """Add ``--local_rank`` to the program, as DeepSpeed's launcher does for a script."""
    ours = context.launch.name == DEEPSPEED and context.options.launcher == DEEPSPEED
    if not ours or "--no_local_rank" in _more(context):
        return command
    program = {"--": 1, "-m": 3}.get(next(iter(context.program), ""), 2)
    argument = f"--local_rank={context.launch.fact('LOCAL_RANK')}"
    return [*command[:program], argument, *command[program:]]


def _one_for_all(context: Context, gpus: int) -> bool:
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
        what = "--launcher and ranks numbered by hand exclude each other"
        where, why = (
            f"WORLD_SIZE={env.get('WORLD_SIZE')}",
            "a launcher numbers the ranks that it starts",
        )
        raise LaunchError(what, where, why, "unset RANK and WORLD_SIZE, or use --launcher direct")
    what = "--launcher needs one task a node, but there are several"
    where = f"launched by {launch.title}, {launch.fact('WORLD_SIZE')} tasks"
    hint = "start one task a node (srun --ntasks-per-node=1), or use --launcher direct"
    raise LaunchError(what, where, "each task would start all ranks of its node", hint)


def _more(context: Context) -> list[str]:
    return context.options.launcher_args.split()


# torchrun and accelerate use the static rendezvous: ``--node-rank 0`` names the first node. The
# other one, c10d, compares host names to choose the agent that listens, and fails if a node has
# several names or interfaces.
def _torchrun(context: Context, place: list[str]) -> tuple[str, list[str]]:
    nodes, rank, address, port = place
    name = context.run_id()
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
        # By default it starts the ranks of several nodes over ssh.
        *("--deepspeed_multinode_launcher", "standard", "--no_python"),
    ]
    # A configuration selects the device itself; without one, CPUs alone would give one process.
    if not any(word.startswith(_KINDS) for word in _more(context)):
        flags += ["--mixed_precision", "no", "--dynamo_backend", "no"]
        flags += ["--multi_gpu"] if total > 1 else []
    return "accelerate.commands.launch", flags


_KINDS = ("--config_file", "--use_", "--multi_gpu", "--cpu", "--tpu")


def _deepspeed(context: Context, place: list[str]) -> tuple[str, list[str]]:
    nodes, rank, address, port = place
    ranks = list(range(context.start.workers))
    # The names of the nodes are only keys, in the order of their ranks.
    world = json.dumps({str(node): ranks for node in range(int(nodes))})
    flags = [
        *("--world_info", base64.urlsafe_b64encode(world.encode()).decode(), "--node_rank", rank),
        *("--master_addr", address, "--master_port", port, "--no_python", "--no_local_rank"),
    ]
    return "deepspeed.launcher.launch", flags


_MODULES: Mapping[str, Callable[[Context, list[str]], tuple[str, list[str]]]] = {
    TORCHRUN: _torchrun,
    "accelerate": _accelerate,
    DEEPSPEED: _deepspeed,
}
