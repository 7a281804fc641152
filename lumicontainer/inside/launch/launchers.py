"""What each launcher tells of a process: which rank it is, of how many, on which node.

A launcher is one function in ``LAUNCHERS``, which is asked in order; the first that recognises its
own variables is the one. The order is from the inside out: variables leak inwards only, so torchrun
inside srun shows both, and torchrun is the one that made this process.
"""

from __future__ import annotations

from ..environment import is_number, number
from ..errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")
"""GROUP_RANK is torchrun's name for the rank of the node."""

TORCHRUN = "torchrun"
DEEPSPEED = "deepspeed"
SLURM = "slurm"
NONE = "none"

_MANAGERS = (
    (
        "mpirun of Open MPI",
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ),
    ),
    ("mpiexec of MPICH", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
)
_PMI = ("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")
_SIGNS = (
    ("TORCHELASTIC_RUN_ID", "LOCAL_RANK", ("RANK", "GROUP_RANK")),
    ("CROSS_RANK", "LOCAL_RANK", ("RANK", "CROSS_RANK")),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", ("OMPI_COMM_WORLD_RANK",)),
    ("MPI_LOCALRANKID", "MPI_LOCALRANKID", ("PMI_RANK",)),
    ("SLURM_STEP_ID", "SLURM_LOCALID", ("SLURM_PROCID", "SLURM_NODEID")),
    ("PMI_RANK", "PMI_LOCAL_RANK", ("PMI_RANK",)),
    ("RANK", "LOCAL_RANK", ("RANK", "NODE_RANK", "GROUP_RANK")),
)
"""In the order of ``LAUNCHERS``: where the first variable is there, the second tells the rank on
the node. That and all of the others are 0 on rank 0, and on no other rank."""

FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""From here on Slurm numbers what is no step of ranks: the batch script, the external and the
interactive step (SLURM_MAX_NORMAL_STEP_ID in slurm.h)."""


class Launch:
    """Hold what a launcher tells: each number with the variable it was read from.

    ``nodelists`` are the variables that may hold the list of nodes whose first one runs rank 0,
    ``ids`` those that tell this run from every other one on the node.
    """

    __slots__ = ("facts", "ids", "name", "nodelists", "title", "workers")

    def __init__(self, name: str, title: str, *, facts: Mapping[str, tuple[int, str]]) -> None:
        self.name = name
        self.workers = 1
        """How many ranks this process is to become: more than one where it starts a launcher."""
        self.title = title
        self.facts = facts
        self.nodelists: tuple[str, ...] = ()
        self.ids: tuple[str, ...] = ()

    def fact(self, name: str) -> int | None:
        """Return what the launcher tells for the variable ``name``, None where it is silent."""
        return self.facts[name][0] if name in self.facts else None

    def on_one_node(self) -> bool:
        """Tell whether all ranks are known to run on this node."""
        local = self.fact("LOCAL_WORLD_SIZE")
        return local is not None and local == self.fact("WORLD_SIZE")


def torchrun(env: Mapping[str, str]) -> Launch | None:
    """Recognise torchrun (and what is built on it, as ``accelerate launch``)."""
    if "TORCHELASTIC_RUN_ID" not in env or "RANK" not in env:
        return None
    told = [name for name in RANKS if env.get(name)]
    facts = {name: (number(env, name), name) for name in told}
    if "GROUP_RANK" in facts:
        facts["NODE_RANK"] = facts["GROUP_RANK"]
    return Launch(TORCHRUN, f"torchrun, run {env['TORCHELASTIC_RUN_ID']}", facts=facts)


def deepspeed(env: Mapping[str, str]) -> Launch | None:
    """Recognise DeepSpeed's own launcher (deepspeed/launcher/launch.py)."""
    if not all(name in env for name in ("CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE", "RANK")):
        return None
    names = {
        "RANK": "RANK",
        "LOCAL_RANK": "LOCAL_RANK",
        "WORLD_SIZE": "WORLD_SIZE",
        "LOCAL_WORLD_SIZE": "LOCAL_SIZE",
        "NODE_RANK": "CROSS_RANK",
        "GROUP_RANK": "CROSS_RANK",
    }
    facts = {name: (number(env, source), source) for name, source in names.items()}
    return Launch(DEEPSPEED, "deepspeed", facts=facts)


def mpiexec(env: Mapping[str, str]) -> Launch | None:
    """Recognise a process manager of MPI by variables that Slurm's own PMI never sets.

    It comes before Slurm: in a batch job its ranks see the variables of the batch step, or of the
    step that carries the process manager, none of which number the ranks.
    """
    for title, names in _MANAGERS:
        if all(name in env for name in names):
            return _mpi(env, title, names)
    return None


def slurm(env: Mapping[str, str]) -> Launch | None:
    """Recognise a task of srun, whichever PMI it offers to the program.

    The shell of sbatch or salloc is none: it sees SLURM_PROCID=0 and the tasks of the allocation,
    but no step, or one of the special steps.
    """
    if "SLURM_STEP_ID" not in env or "SLURM_PROCID" not in env:
        return None
    step = number(env, "SLURM_STEP_ID")
    if step >= FIRST_SPECIAL_STEP:
        return None
    # srun --preserve-env leaves SLURM_NTASKS and SLURM_TASKS_PER_NODE as the allocation has them.
    size = _first(env, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    per_node = _first(env, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    node = number(env, "SLURM_NODEID")
    facts = {
        "RANK": (number(env, "SLURM_PROCID"), "SLURM_PROCID"),
        "LOCAL_RANK": (number(env, "SLURM_LOCALID"), "SLURM_LOCALID"),
        "WORLD_SIZE": (number(env, size), size),
        "LOCAL_WORLD_SIZE": (_tasks_on(node, env, per_node), f"{per_node}={env.get(per_node)}"),
        "NODE_RANK": (node, "SLURM_NODEID"),
        "GROUP_RANK": (node, "SLURM_NODEID"),
    }
    launch = Launch(SLURM, f"srun, step {env.get('SLURM_JOB_ID', '?')}.{step}", facts=facts)
    launch.ids = ("SLURM_JOB_ID", "SLURM_STEP_ID")
    # The list is sorted; only a host file puts rank 0 elsewhere than on its first node.
    if env.get("SLURM_DISTRIBUTION") != "arbitrary":
        launch.nodelists = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    return launch


def pmi(env: Mapping[str, str]) -> Launch | None:
    """Recognise any other process manager that speaks PMI, such as HPE's PALS."""
    if "PMI_RANK" not in env or "PMI_SIZE" not in env:
        return None
    return _mpi(env, "a process manager that speaks PMI", _PMI)


def single(env: Mapping[str, str]) -> Launch:
    """Take this for the only process, unless the user numbers the ranks by hand."""
    if (env.get("WORLD_SIZE") or "1") != "1":
        return Launch(NONE, "no launcher; the ranks are numbered by hand", facts={})
    facts = dict.fromkeys(("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK"), (0, "one process"))
    facts["WORLD_SIZE"] = facts["LOCAL_WORLD_SIZE"] = (1, "one process")
    return Launch(NONE, "no launcher; one process", facts=facts)


LAUNCHERS: tuple[Callable[[Mapping[str, str]], Launch | None], ...] = (
    torchrun,
    deepspeed,
    mpiexec,
    slurm,
    pmi,
)


def recognise(env: Mapping[str, str]) -> Launch:
    """Return what the launcher of this process tells; raise LaunchError where that is wrong."""
    for launcher in LAUNCHERS:
        launch = launcher(env)
        if launch is not None:
            return launch
    return single(env)


def _mpi(env: Mapping[str, str], title: str, names: tuple[str, ...]) -> Launch:
    rank, size, local, local_size = names
    facts = {"RANK": (number(env, rank), rank), "WORLD_SIZE": (number(env, size), size)}
    if local in env and local_size in env:
        facts["LOCAL_RANK"] = (number(env, local), local)
        facts["LOCAL_WORLD_SIZE"] = (number(env, local_size), local_size)
    launch = Launch("mpi", title, facts=facts)
    # A daemon of MPI may be a step of its own; the variables of the job are the same for all.
    launch.ids = ("SLURM_JOB_ID",) if "SLURM_JOB_ID" in env else ()
    if launch.on_one_node():
        facts["NODE_RANK"] = facts["GROUP_RANK"] = (0, "all ranks are on one node")
    else:
        launch.nodelists = ("SLURM_JOB_NODELIST",)
    return launch


def _first(env: Mapping[str, str], *names: str) -> str:
    return next((name for name in names if env.get(name)), names[0])


def _tasks_on(node: int, env: Mapping[str, str], name: str) -> int:
    """Return the tasks on the node with the index ``node`` from a text like ``4(x2),3``."""
    text = env.get(name, "")
    counts = [repeated(part) for part in text.split(",")]
    # Read to its end: a text that is broken is so for every node, one that is short for the last.
    readable = all(count is not None for count in counts)
    before = 0
    for tasks, nodes in (count for count in counts if readable and count is not None):
        before += nodes
        if node < before:
            return tasks
    raise LaunchError(
        f"{name} does not tell how many tasks run on this node: '{text}'",
        where="the environment of this process",
        why=f"SLURM_NODEID={node} asks for entry {node + 1} of a list like 4(x2),3",
        hint=f"leave {name} and SLURM_NODEID as srun sets them",
        local=readable,
    )


def repeated(part: str) -> tuple[int, int] | None:
    """Return the tasks and the nodes of ``4(x2)`` or ``4``; None where it is neither."""
    count, repeated, rest = part.partition("(x")
    times = rest if repeated else "1)"
    if not (is_number(count) and is_number(times[:-1]) and times.endswith(")")):
        return None
    return int(count), int(times[:-1])


def one_a_node(env: Mapping[str, str], launch: Launch) -> bool:
    """Tell whether this process is its node's only one, and so on every node."""
    if launch.name == SLURM:
        nodes = _first(env, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
        return number(env, nodes) == launch.fact("WORLD_SIZE")
    return launch.fact("LOCAL_WORLD_SIZE") == 1


def speaks(env: Mapping[str, str]) -> bool:
    """Tell whether this process is rank 0, which tells all of an error.

    It trusts nothing: of several variables those count that are numbers, and a process that cannot
    tell its rank at all speaks.
    """
    for sign, local, names in _SIGNS:
        if sign in env:
            told = [env.get(name, "") for name in (local, *names)]
            return not any(int(text) for text in told if is_number(text))
    return True


def first_of_node(env: Mapping[str, str]) -> bool:
    """Tell whether this process is the first rank of its node; where nothing tells, it is."""
    for sign, local, _ in _SIGNS:
        if sign in env:
            text = env.get(local, "")
            return not is_number(text) or int(text) == 0
    return True
