"""Recognize the launcher of this process by its variables: its rank, the number of ranks, its node.

``KINDS`` lists the launchers. The innermost comes first: variables are inherited, so torchrun
inside srun shows both, and torchrun started this process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..environment import number, optional_number
from ..errors import ENVIRONMENT, LaunchError

# GROUP_RANK is torchrun's name for the rank of the node.
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")

TORCHRUN, DEEPSPEED, SLURM, MPI, NONE = "torchrun", "deepspeed", "slurm", "mpi", "none"

# Higher ids are not of steps with ranks: the batch script, the external and the interactive step
# (SLURM_MAX_NORMAL_STEP_ID in slurm.h).
FIRST_SPECIAL_STEP = 0xFFFFFFF0


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


class Kind(NamedTuple):
    """A kind of launcher: the variables by which it is known, and those with its numbers.

    ``sources`` are the variables for the first of RANKS, in their order. ``read`` makes the launch
    of them, or returns None if it is not this launcher after all.
    """

    name: str
    title: str
    signs: tuple[str, ...]
    sources: tuple[str, ...]
    read: Callable[[Mapping[str, str], Kind], Launch | None]


def _facts(env: Mapping[str, str], kind: Kind, *, whole: bool) -> dict[str, tuple[int, str]]:
    """Return the numbers; unless ``whole``, only the rank and the number of ranks must be set."""
    needed = RANKS if whole else ("RANK", "WORLD_SIZE")
    pairs = [pair for pair in zip(RANKS, kind.sources) if pair[1]]
    facts = {
        name: (number(env, source), source)
        for name, source in pairs
        if name in needed or env.get(source)
    }
    if "NODE_RANK" in facts:
        facts["GROUP_RANK"] = facts["NODE_RANK"]
    return facts


def _of_pytorch(env: Mapping[str, str], kind: Kind) -> Launch:
    title = kind.title.format(env.get("TORCHELASTIC_RUN_ID"))
    return Launch(kind.name, title, _facts(env, kind, whole=kind.name == DEEPSPEED))


def _slurm(env: Mapping[str, str], kind: Kind) -> Launch | None:
    """Return the launch of a task of srun."""
    # The shell of sbatch or salloc is not a task: it has SLURM_PROCID=0 and the number of tasks,
    # but no step, or one of the special steps.
    step = number(env, "SLURM_STEP_ID")
    if step >= FIRST_SPECIAL_STEP:
        return None
    # srun --preserve-env keeps the allocation's SLURM_NTASKS and SLURM_TASKS_PER_NODE.
    size = _first(env, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    per_node = _first(env, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    facts = _facts(env, kind, whole=True)
    tasks = _tasks_on(facts["NODE_RANK"][0], env, per_node)
    facts["WORLD_SIZE"] = (number(env, size), size)
    facts["LOCAL_WORLD_SIZE"] = (tasks, f"{per_node}={env.get(per_node)}")
    # The list is sorted. Rank 0 is on its first node, except with a host file.
    arbitrary = env.get("SLURM_DISTRIBUTION") == "arbitrary"
    nodelists = () if arbitrary else ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    title = f"srun, step {env.get('SLURM_JOB_ID', '?')}.{step}"
    return Launch(SLURM, title, facts, nodelists, ("SLURM_JOB_ID", "SLURM_STEP_ID"))


def _mpi(env: Mapping[str, str], kind: Kind) -> Launch:
    facts = _facts(env, kind, whole=False)
    # A daemon of MPI may have its own step; the variables of the job are the same for all.
    ids = ("SLURM_JOB_ID",) if "SLURM_JOB_ID" in env else ()
    launch = Launch(MPI, kind.title, facts, ("SLURM_JOB_NODELIST",), ids)
    if launch.on_one_node():
        facts["NODE_RANK"] = facts["GROUP_RANK"] = (0, "all ranks are on one node")
        return launch._replace(nodelists=())
    return launch


_OPEN_MPI = tuple(
    f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "LOCAL_RANK", "SIZE", "LOCAL_SIZE")
)
_MPICH = ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS")
_SRUN = ("SLURM_PROCID", "SLURM_LOCALID", "", "", "SLURM_NODEID")
_PMI = ("PMI_RANK", "PMI_LOCAL_RANK", "PMI_SIZE", "PMI_LOCAL_SIZE")
KINDS = (
    Kind(
        TORCHRUN,
        "torchrun, run {}",
        ("TORCHELASTIC_RUN_ID", "RANK"),
        (*RANKS[:4], "GROUP_RANK"),
        _of_pytorch,
    ),
    # deepspeed/launcher/launch.py
    Kind(
        DEEPSPEED,
        "deepspeed",
        ("CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE", "RANK"),
        (*RANKS[:3], "LOCAL_SIZE", "CROSS_RANK"),
        _of_pytorch,
    ),
    # Before Slurm, whose PMI never sets these: in a batch job their ranks inherit the variables of
    # the batch step, or of the step of the process manager, and neither numbers the ranks.
    Kind(MPI, "mpirun of Open MPI", _OPEN_MPI, _OPEN_MPI, _mpi),
    Kind(MPI, "mpiexec of MPICH", _MPICH, _MPICH, _mpi),
    Kind(SLURM, "srun", ("SLURM_STEP_ID", "SLURM_PROCID"), _SRUN, _slurm),
    # Others, such as HPE's PALS.
    Kind(MPI, "a process manager with PMI", ("PMI_RANK", "PMI_SIZE"), _PMI, _mpi),
)
"""A new launcher is one row. tests/contracts/test_launchers.py proves it."""


def recognize(env: Mapping[str, str]) -> Launch:
    """Return the launch of this process; raise LaunchError if its variables are invalid."""
    for kind in KINDS:
        if all(sign in env for sign in kind.signs):
            launch = kind.read(env, kind)
            if launch is not None:
                return launch
    if (env.get("WORLD_SIZE") or "1") != "1":
        return Launch(NONE, "no launcher; the ranks are numbered by hand", facts={})
    facts = {name: (int(name.endswith("SIZE")), "one process") for name in RANKS}
    return Launch(NONE, "no launcher; one process", facts)


def _first(env: Mapping[str, str], *names: str) -> str:
    return next((name for name in names if env.get(name)), names[0])


def _tasks_on(node: int, env: Mapping[str, str], name: str) -> int:
    text = env.get(name, "")
    counts = [repeated(part) for part in text.split(",")]
    # An invalid list is invalid on every node, a short one on the last nodes only.
    readable = all(count is not None for count in counts)
    before = 0
    for tasks, nodes in (count for count in counts if readable and count is not None):
        before += nodes
        if node < before:
            return tasks
    what = f"{name} does not give the number of tasks on this node: '{text}'"
    why = f"SLURM_NODEID={node} needs entry {node + 1} of a list such as 4(x2),3"
    hint = f"leave {name} and SLURM_NODEID as srun sets them"
    raise LaunchError(what, ENVIRONMENT, why, hint, local=readable)


def repeated(part: str) -> tuple[int, int] | None:
    """Return the tasks and the nodes of ``4(x2)`` or ``4``; None for any other text."""
    match = re.fullmatch(r"([0-9]{1,19})(?:\(x([0-9]{1,19})\))?", part)
    return (int(match[1]), int(match[2] or 1)) if match else None


def one_a_node(env: Mapping[str, str], launch: Launch) -> bool:
    """Return whether each node has exactly one process of the launch."""
    if launch.name == SLURM:
        return nodes(env, launch) == launch.fact("WORLD_SIZE")
    return launch.fact("LOCAL_WORLD_SIZE") == 1


def nodes(env: Mapping[str, str], launch: Launch) -> int | None:
    """Return the number of nodes of a launch; None if it is unknown."""
    if launch.name == SLURM:
        return optional_number(env, _first(env, "SLURM_STEP_NUM_NODES", "SLURM_NNODES"))
    ranks, local = launch.fact("WORLD_SIZE"), launch.fact("LOCAL_WORLD_SIZE")
    return -(-ranks // local) if ranks and local else None


def is_rank_0(env: Mapping[str, str]) -> bool:
    """Return whether this process is rank 0, which prints errors; True if its rank is unknown."""
    names = _numbering(env)
    return not any(optional_number(env, name) for name in (*names[:2], *names[4:]))


def first_of_node(env: Mapping[str, str]) -> bool:
    """Return whether this process is the first rank of its node; True if that is unknown."""
    return not optional_number(env, _numbering(env)[1])


def _numbering(env: Mapping[str, str]) -> tuple[str, ...]:
    known = (kind.sources for kind in KINDS if all(sign in env for sign in kind.signs))
    return next(known, RANKS)
