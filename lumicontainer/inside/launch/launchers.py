"""Recognize the launcher of this process by its variables: its rank, the number of ranks, its node.

Each launcher is one function in ``LAUNCHERS``; the first that finds its own variables counts. The
innermost launcher comes first: variables are inherited, so torchrun inside srun shows both, and
torchrun started this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..environment import is_number, number
from ..errors import LaunchError

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
"""In the order of ``LAUNCHERS``: a variable that the launcher always sets, the one of the rank on
the node, and others. Rank 0 has 0 in all of the latter, and no other rank has."""

FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""Higher ids are not of steps with ranks: the batch script, the external and the interactive step
(SLURM_MAX_NORMAL_STEP_ID in slurm.h)."""


class Launch(NamedTuple):
    """A launcher's numbers (``facts``), each with the variable that it was read from.

    ``nodelists`` are the variables that may hold the list of nodes whose first one runs rank 0;
    ``ids`` are those that together are unique to this run on the node.
    """

    name: str
    title: str
    facts: Mapping[str, tuple[int, str]]
    nodelists: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def fact(self, name: str) -> int | None:
        """Return the launcher's number for the variable ``name``; None if it sets none."""
        return self.facts[name][0] if name in self.facts else None

    def on_one_node(self) -> bool:
        """Return whether all ranks are known to run on this node."""
        local = self.fact("LOCAL_WORLD_SIZE")
        return local is not None and local == self.fact("WORLD_SIZE")


def torchrun(env: Mapping[str, str]) -> Launch | None:
    """Recognize torchrun, and launchers that use it such as ``accelerate launch``."""
    if "TORCHELASTIC_RUN_ID" not in env or "RANK" not in env:
        return None
    facts = {name: (number(env, name), name) for name in RANKS if env.get(name)}
    if "GROUP_RANK" in facts:
        facts["NODE_RANK"] = facts["GROUP_RANK"]
    return Launch(TORCHRUN, f"torchrun, run {env['TORCHELASTIC_RUN_ID']}", facts=facts)


def deepspeed(env: Mapping[str, str]) -> Launch | None:
    """Recognize DeepSpeed's own launcher (deepspeed/launcher/launch.py)."""
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
    """Recognize a process manager of MPI by variables that Slurm's own PMI never sets.

    It is tried before Slurm: in a batch job its ranks inherit the variables of the batch step, or
    of the step of the process manager, and neither numbers the ranks.
    """
    for title, names in _MANAGERS:
        if all(name in env for name in names):
            return _mpi(env, title, names)
    return None


def slurm(env: Mapping[str, str]) -> Launch | None:
    """Recognize a task of srun, with any PMI.

    The shell of sbatch or salloc is not a task: it has SLURM_PROCID=0 and the number of tasks, but
    no step, or one of the special steps.
    """
    if "SLURM_STEP_ID" not in env or "SLURM_PROCID" not in env:
        return None
    step = number(env, "SLURM_STEP_ID")
    if step >= FIRST_SPECIAL_STEP:
        return None
    # srun --preserve-env keeps the allocation's SLURM_NTASKS and SLURM_TASKS_PER_NODE.
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
    # The list is sorted. Rank 0 is on its first node, except with a host file.
    arbitrary = env.get("SLURM_DISTRIBUTION") == "arbitrary"
    nodelists = () if arbitrary else ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    title = f"srun, step {env.get('SLURM_JOB_ID', '?')}.{step}"
    return Launch(SLURM, title, facts, nodelists, ("SLURM_JOB_ID", "SLURM_STEP_ID"))


def pmi(env: Mapping[str, str]) -> Launch | None:
    """Recognize other process managers with PMI, such as HPE's PALS."""
    if "PMI_RANK" not in env or "PMI_SIZE" not in env:
        return None
    return _mpi(env, "a process manager with PMI", _PMI)


def single(env: Mapping[str, str]) -> Launch:
    """Return the launch of the only process, or of ranks that the user numbers by hand."""
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


def recognize(env: Mapping[str, str]) -> Launch:
    """Return the launch of this process; raise LaunchError if its variables are invalid."""
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
    # A daemon of MPI may have a step of its own; the variables of the job are the same for all.
    ids = ("SLURM_JOB_ID",) if "SLURM_JOB_ID" in env else ()
    if Launch("mpi", title, facts).on_one_node():
        facts["NODE_RANK"] = facts["GROUP_RANK"] = (0, "all ranks are on one node")
        return Launch("mpi", title, facts, ids=ids)
    return Launch("mpi", title, facts, ("SLURM_JOB_NODELIST",), ids)


def _first(env: Mapping[str, str], *names: str) -> str:
    return next((name for name in names if env.get(name)), names[0])


def _tasks_on(node: int, env: Mapping[str, str], name: str) -> int:
    """Return the tasks on the node with the index ``node`` from a list such as ``4(x2),3``."""
    text = env.get(name, "")
    counts = [repeated(part) for part in text.split(",")]
    # An invalid list is invalid on every node, a short one on the last nodes only.
    readable = all(count is not None for count in counts)
    before = 0
    for tasks, nodes in (count for count in counts if readable and count is not None):
        before += nodes
        if node < before:
            return tasks
    raise LaunchError(
        f"{name} does not give the number of tasks on this node: '{text}'",
        where="the environment of this process",
        why=f"SLURM_NODEID={node} needs entry {node + 1} of a list such as 4(x2),3",
        hint=f"leave {name} and SLURM_NODEID as srun sets them",
        local=readable,
    )


def repeated(part: str) -> tuple[int, int] | None:
    """Return the tasks and the nodes of ``4(x2)`` or ``4``; None for any other text."""
    count, repeated, rest = part.partition("(x")
    times = rest if repeated else "1)"
    if not (is_number(count) and is_number(times[:-1]) and times.endswith(")")):
        return None
    return int(count), int(times[:-1])


def one_a_node(env: Mapping[str, str], launch: Launch) -> bool:
    """Return whether each node has exactly one process of the launch."""
    if launch.name == SLURM:
        nodes = _first(env, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
        return number(env, nodes) == launch.fact("WORLD_SIZE")
    return launch.fact("LOCAL_WORLD_SIZE") == 1


def is_rank_0(env: Mapping[str, str]) -> bool:
    """Return whether this process is rank 0, which prints errors; True if its rank is unknown.

    Variables that are not numbers do not count.
    """
    for sign, local, names in _SIGNS:
        if sign in env:
            values = [env.get(name, "") for name in (local, *names)]
            return not any(int(text) for text in values if is_number(text))
    return True


def first_of_node(env: Mapping[str, str]) -> bool:
    """Return whether this process is the first rank of its node; True if that is unknown."""
    for sign, local, _ in _SIGNS:
        if sign in env:
            text = env.get(local, "")
            return not is_number(text) or int(text) == 0
    return True
