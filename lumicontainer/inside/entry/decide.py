"""Decide every variable of a rank: what the user set, what the launcher tells, what follows.

A variable that says who this process is has one value that is right, and the launcher knows it.
Where the user's differs it is nearly always left over from a place outside the ranks (``export
RANK=$SLURM_PROCID`` in the batch script makes every rank 0). A wrong WORLD_SIZE is seen by every
rank alike, so all of them can stop. A left-over RANK=0 is right on rank 0, which would wait for the
others for ever if they stopped; so there the launcher's value is used, with a warning.
Every other variable is the user's to set.
"""

from __future__ import annotations

from ..environment import DEFAULT, USER, Setting, is_number
from ..errors import LaunchError
from ..launch import cleanenv, rendezvous
from ..launch.launchers import NONE, RANKS, TORCHRUN, recognise
from ..launch.program import unusable
from ..rank import affinity, gpus, threads, variables
from ..rank.context import Context
from ..rank.node_launcher import DIRECT, choose
from . import around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..launch.launchers import Launch
    from ..node.hardware import Node
    from ..rank.options import Options

SINGLE: tuple[tuple[str, Callable[[Mapping[str, str], Launch], Setting | None]], ...] = (
    ("MASTER_ADDR", rendezvous.address),
    ("MASTER_PORT", rendezvous.port),
)
"""Each variable with what decides it where the user has not set it."""

GROUPS: tuple[Callable[[Context], Iterable[Setting]], ...] = (
    gpus.settings,
    affinity.settings,
    threads.settings,
    variables.settings,
    around.cache_settings,
)
"""What decides several variables together; ``Context.default`` lets the user's win.

In this order: the cores follow from the GPU, and the number of threads from the cores.
"""

MARK = "LUMI_ENTRY_SET"
"""Lists what lumi-entry set, so that another one further in does not take it for the user's."""
_HERE = "the environment of this process"


class Decision:
    """Hold what was decided for this process, and what is to be said about it."""

    __slots__ = ("context", "launch", "settings", "warnings")

    def __init__(self, context: Context, settings: list[Setting], warnings: list[str]) -> None:
        self.context = context
        self.launch = context.launch
        self.settings = settings
        self.warnings = warnings

    def changes(self) -> dict[str, str]:
        """Return the variables that the program gets in place of those that are there."""
        env = self.context.env
        if self.context.start.launcher != DIRECT:
            # The launcher numbers its ranks, and hands its place of meeting on to them.
            numbers = (*RANKS, "MASTER_ADDR", "MASTER_PORT")
            return {s.name: s.value for s in self.settings if s.value and s.name not in numbers}
        ours = {
            s.name: s.value
            for s in self.settings
            if s.value and s.origin != USER and s.value != env.get(s.name)
        }
        mark = " ".join(f"{name}={_packed(value)}" for name, value in ours.items())
        return {**ours, MARK: mark} if ours else {}

    def warned(self) -> bool:
        """Tell whether this process is the one that passes the warnings on.

        It is rank 0; but a left-over RANK=0 is right there, and rank 1 is the first that sees it.
        """
        rank = next((s.value for s in self.settings if s.name == "RANK"), None)
        if rank is None:
            return self.launch.fact("RANK") == 0
        return rank == "0" or (rank == "1" and self._overridden() == {"0"})

    def _overridden(self) -> set[str | None]:
        """Return the values of the ranks' variables that gave way to the launcher's."""
        env = self.context.env
        ours = self.changes()
        return {env[name] for name in RANKS if env.get(name) and name in ours}


def decide(
    env: Mapping[str, str],
    *,
    node: Node | None = None,
    platform: Mapping[str, Any] | None = None,
    options: Options | None = None,
    program: Sequence[str] = (),
) -> Decision:
    """Decide the variables of the process whose environment is ``env``.

    ``node`` is the one below /, ``platform`` what the image's platform says (platform.json).
    Raises LaunchError where the variables that tell of the ranks contradict each other.
    """
    launch = recognise(env)
    context = Context(env, launch, node=node, platform=platform, options=options, program=program)
    cleanenv.check(env, launch, context.node.root)
    if "VIRTUAL_ENV" in env:
        context.warnings.extend(filter(None, [unusable(env)]))
    context.start = choose(context)
    launch.workers = context.start.workers
    if context.start.launcher != DIRECT:
        # The launcher would give each of its ranks one thread.
        settings = [*_others(env, launch), *threads.settings(context)]
        around.judge(context, settings)
        return Decision(context, settings, [*_no_srun(env, launch), *context.warnings])
    if launch.name == TORCHRUN:
        settings = _left_alone(env, launch)
        told: list[str] = []
    else:
        ranks = [_rank_setting(name, env, launch) for name in RANKS]
        _check(ranks, launch)
        settings = [*ranks, *_others(env, launch)]
        told = [*_overridden(ranks, env, launch), *_no_srun(env, launch)]
    for group in GROUPS:
        settings.extend(group(context))
    around.judge(context, settings)
    return Decision(context, settings, [*told, *context.warnings])


def without_own(env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` without what a lumi-entry further out set for a process of its own.

    Where one of its variables was changed since, a launcher in between has numbered its processes.
    """
    rest = dict(env)
    ours = [entry.partition("=") for entry in rest.pop(MARK, "").split()]
    changed = any(_packed(env.get(name, "")) != value for name, _, value in ours)
    if "TORCHELASTIC_RUN_ID" in env or changed:
        return rest
    for name, _, _ in ours:
        rest.pop(name, None)
    return rest


def _packed(value: str) -> str:
    """Return a value as one word."""
    return "%20".join(value.replace("%", "%25").split())


def without_ranks(env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` without what tells of ranks: a launcher tells each of its own."""
    return {name: value for name, value in env.items() if name not in RANKS}


def _left_alone(env: Mapping[str, str], launch: Launch) -> list[Setting]:
    names = [*RANKS, *(name for name, _ in SINGLE), threads.NAME, gpus.ROCR, gpus.HIP, gpus.CUDA]
    why = f"left as {launch.name} set it"
    there = (name for name in names if name in env)
    return [Setting(name, env[name], origin=launch.name, why=why) for name in there]


def _rank_setting(name: str, env: Mapping[str, str], launch: Launch) -> Setting:
    given = env.get(name)
    known = name in launch.facts
    if given and (launch.name == NONE or not known):
        return Setting(name, given, origin=USER, why="set already")
    if not known:
        return Setting(name, None, origin=launch.name, why="the launcher does not tell it")
    value, why = launch.facts[name]
    origin = DEFAULT if launch.name == NONE else launch.name
    if not given:
        return Setting(name, str(value), origin=origin, why=why)
    if is_number(given) and int(given) == value:
        return Setting(name, given, origin=USER, why=f"set already, as {why} has it")
    if name == "WORLD_SIZE":
        raise LaunchError(
            f"WORLD_SIZE={given} is set, but there are {value} ranks",
            where=f"launched by {launch.title}",
            why=f"{why}={value}; every rank would wait for a number of others that never comes",
            hint="unset WORLD_SIZE, or start as many ranks as it says",
        )
    return Setting(name, str(value), origin=origin, why=f"{why}, not the {given} that was set")


def _others(env: Mapping[str, str], launch: Launch) -> Iterator[Setting]:
    for name, decider in SINGLE:
        if env.get(name):
            yield Setting(name, env[name], origin=USER, why="set already")
            continue
        setting = decider(env, launch)
        if setting is not None:
            yield setting


def _check(ranks: list[Setting], launch: Launch) -> None:
    known = {}
    for setting in ranks:
        if setting.value is not None:
            known[setting.name] = _number(setting.name, setting.value)
        elif setting.name in ("RANK", "LOCAL_RANK"):
            raise LaunchError(
                f"{setting.name} is not set",
                where=_HERE,
                why="the ranks are numbered by hand or by a launcher that does not tell it",
                hint=f"export {setting.name} in each rank, or start them with srun or mpiexec",
            )
    pairs = {"RANK": "WORLD_SIZE"}
    # One process on its own may choose its GPU with LOCAL_RANK; some launchers tell no local size.
    if known["WORLD_SIZE"] > 1 and "LOCAL_WORLD_SIZE" in known:
        pairs["LOCAL_RANK"] = "LOCAL_WORLD_SIZE"
    for name, size in pairs.items():
        if known[name] >= known[size]:
            raise LaunchError(
                f"{name}={known[name]} is not below {size}={known[size]}",
                where=_HERE,
                why="ranks are counted from 0",
                hint=f"let the launcher number the ranks: unset {name} and {size}",
                told=launch.name == NONE
                or known[name] == known[size]
                or not (known["LOCAL_RANK"] or known.get("NODE_RANK")),
            )


def _number(name: str, text: str) -> int:
    if is_number(text):
        return int(text)
    raise LaunchError(
        f"{name} is not a number: '{text}'",
        where=_HERE,
        why="it was set so before lumi-entry started",
        hint=f"unset {name}, or give it a number",
    )


def _overridden(ranks: list[Setting], env: Mapping[str, str], launch: Launch) -> Iterator[str]:
    lost = [s for s in ranks if s.origin == launch.name and s.value and env.get(s.name)]
    if lost:
        given = " ".join(f"{s.name}={env[s.name]}" for s in lost)
        used = " ".join(f"{s.name}={s.value}" for s in lost)
        yield (
            f"{given}, set outside the ranks, is not used: {launch.title} made this {used} "
            "(do not export it in the batch script)"
        )


def _no_srun(env: Mapping[str, str], launch: Launch) -> Iterator[str]:
    tasks = env.get("SLURM_NTASKS", "")
    alone = launch.name == NONE and "SLURM_JOB_ID" in env and launch.fact("WORLD_SIZE") == 1
    if alone and is_number(tasks) and int(tasks) > 1:
        yield (
            f"this is one process on its own, though Slurm's job has {tasks} tasks: "
            "srun starts a rank for each of them"
        )
