"""Decide every variable of a rank from the user's, the launcher's, the platform and the node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..environment import DEFAULT, USER, Setting, kept, number, optional_number
from ..errors import ENVIRONMENT, LaunchError
from ..image import hidden
from ..launch import cleanenv, mpi, open_files, rendezvous, shells
from ..launch.launchers import NONE, RANKS, TORCHRUN, Launch
from ..launch.program import activated, interpreter, unusable
from ..rank import affinity, caches, gpus, own_launchers, variables
from ..rank.context import DIRECT, Context
from ..rank.node_launcher import choose

SINGLE = ("MASTER_ADDR", "MASTER_PORT")

# Lists what lumi-entry set, so that an inner lumi-entry does not take it for the user's.
MARK = "LUMI_ENTRY_SET"


class Decision(NamedTuple):
    """The decided variables of this process, and warnings about them."""

    context: Context
    settings: list[Setting]
    warnings: list[str]

    def changes(self) -> dict[str, str]:
        """Return the variables that replace the environment's for the program."""
        env = self.context.env
        if self.context.start.launcher != DIRECT:
            # The launcher numbers its ranks, and passes MASTER_ADDR and MASTER_PORT on to them.
            numbers = (*RANKS, *SINGLE)
            return {name: value for name, value in self._ours() if name not in numbers}
        ours = {name: value for name, value in self._ours() if value != env.get(name)}
        mark = " ".join(f"{name}={_packed(value)}" for name, value in ours.items())
        return {**ours, MARK: mark} if ours else {}

    def _ours(self) -> Iterator[tuple[str, str]]:
        return ((s.name, s.value) for s in self.settings if s.value and s.origin != USER)

    def warned(self) -> bool:
        """Return whether this process prints the warnings."""
        # It is rank 0; but an exported RANK=0 is correct there, and rank 1 is the first to see it.
        rank = next((s.value for s in self.settings if s.name == "RANK"), None)
        if rank is None:
            return self.context.launch.fact("RANK") == 0
        env, ours = self.context.env, self.changes()
        overridden = {env[name] for name in RANKS if env.get(name) and name in ours}
        return rank == "0" or (rank == "1" and overridden == {"0"})

    def as_text(self) -> str:
        """Return one line a variable: its value for the program, its origin, the reason."""
        context, launch = self.context, self.context.launch
        rows = [
            (f"{s.name}={s.value}" if s.value is not None else f"{s.name} unset", s.origin, s.why)
            for s in self.settings
        ]
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        heads = [f"launcher: {launch.name} ({launch.title})", f"ranks: {context.start.described()}"]
        if activated(context.env):
            heads.append(f"python: {interpreter()} (of the active VIRTUAL_ENV)")
        if context.gpu is not None:
            heads.append("place: " + ", ".join(f"{name} {value}" for name, value in self._place()))
        lines = [f"{row[0]:<{first}}  {row[1]:<{second}}  {row[2]}" for row in rows]
        return "\n".join([*heads, *lines, ""])

    def as_json(self) -> str:
        """Return one line of JSON, so that several ranks can print to one stdout."""
        start, launch = self.context.start, self.context.launch
        record = {
            "launcher": launch.name,
            "title": launch.title,
            "python": interpreter(),
            "ranks": {"by": start.launcher, "here": start.workers, "why": start.why},
            "variables": [each._asdict() for each in self.settings],
            "place": dict(self._place()),
            "warnings": self.warnings,
        }
        return json.dumps(record) + "\n"

    def _place(self) -> list[tuple[str, str]]:
        binding = self.context.binding
        return affinity.place(self.context, binding.cpus if binding is not None else None)


def decide(context: Context) -> Decision:
    """Decide the variables of a rank; raise LaunchError if its launcher's are invalid."""
    env, launch = context.env, context.launch
    cleanenv.check(env, launch, context.node)
    context.warnings += filter(None, [unusable(env)])
    own_launchers.check(context)
    context.start = choose(context)
    own_launchers.judge_configuration(context)
    if launch.fact("RANK") == 0:
        context.warnings += filter(None, [hidden.described(env), _few_files(context)])
    if context.start.launcher != DIRECT:
        # The launcher would give each of its ranks one thread.
        settings = [*rendezvous.settings(env, launch, context.warnings), *affinity.threads(context)]
        variables.judge_discouraged(context, settings)
        variables.advise(context)
        return Decision(context, settings, [*_no_srun(env, launch), *context.warnings])
    if launch.name == TORCHRUN:
        names = [*RANKS, *SINGLE, gpus.ROCR, gpus.HIP, gpus.CUDA]
        why = f"left as {launch.name} set it"
        settings = [Setting(name, env[name], launch.name, why) for name in names if name in env]
        warnings: list[str] = []
    elif is_alone(env, launch):
        settings, warnings = list(_as_plain_python(env)), list(_no_srun(env, launch))
    else:
        ranks = [_rank_setting(name, env, launch) for name in RANKS]
        _check(ranks, launch)
        settings = [*ranks, *rendezvous.settings(env, launch, context.warnings)]
        warnings = [*_overridden(ranks, env, launch), *_no_srun(env, launch)]
        warnings += [*mpi.lone_ranks(env, launch), *shells.of_pty(env, launch)]
    # The cores follow from the GPU, and the number of threads from the cores.
    settings += gpus.settings(context)
    affinity.decide(context)
    for group in (affinity.threads, variables.settings, caches.settings):
        settings += group(context)
    variables.judge_discouraged(context, settings)
    variables.advise(context)
    return Decision(context, settings, [*warnings, *context.warnings])


def without_own(env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` without the variables that an outer lumi-entry set for its process."""
    rest = dict(env)
    ours = dict(entry.partition("=")[::2] for entry in rest.pop(MARK, "").split())
    # If one of them has changed since, a launcher between the two has numbered its processes.
    changed = any(_packed(env.get(name, "")) != value for name, value in ours.items())
    if "TORCHELASTIC_RUN_ID" in env or changed:
        return rest
    return {name: value for name, value in rest.items() if name not in ours}


def _packed(value: str) -> str:
    return "%20".join(value.replace("%", "%25").split())


def without_ranks(env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` without the variables of ranks, which a launcher sets for its own."""
    return {name: value for name, value in env.items() if name not in RANKS}


# The launcher knows the only correct value of a variable such as RANK. If the user's value differs,
# it was nearly always exported outside the ranks (``export RANK=$SLURM_PROCID`` in the batch script
# makes every rank 0). Every rank sees the same wrong WORLD_SIZE, so all of them stop. RANK=0 is
# correct on rank 0, which would wait for ever if only the others stopped; so the launcher's value
# replaces it, with a warning. The user may set every other variable.
def _rank_setting(name: str, env: Mapping[str, str], launch: Launch) -> Setting:
    text = env.get(name)
    known = name in launch.facts
    if text and (launch.name == NONE or not known):
        return kept(env, name)
    if not known:
        return Setting(name, None, origin=launch.name, why="the launcher does not set it")
    value, why = launch.facts[name]
    origin = DEFAULT if launch.name == NONE else launch.name
    if not text:
        return Setting(name, str(value), origin=origin, why=why)
    if optional_number(env, name) == value:
        return kept(env, name, f"set already, equal to {why}")
    if name == "WORLD_SIZE":
        what = f"WORLD_SIZE={text} is set, but there are {value} ranks"
        why = f"{why}={value}; each rank would wait for a number of ranks that never start"
        hint = "unset WORLD_SIZE, or start that number of ranks"
        raise LaunchError(what, f"launched by {launch.title}", why, hint)
    return Setting(name, str(value), origin=origin, why=f"{why}, not {text}, which was set")


def _few_files(context: Context) -> str:
    return open_files.warning((context.number("WORLD_SIZE") or 1) * context.start.workers)


def is_alone(env: Mapping[str, str], launch: Launch) -> bool:
    """Return whether neither a launcher nor the user numbers this process."""
    numbered = env.get("RANK") or env.get("WORLD_SIZE")
    return launch.name == NONE and not numbered


# Programs such as nanoGPT take any RANK for a launcher's, and want other ranks.
def _as_plain_python(env: Mapping[str, str]) -> Iterator[Setting]:
    why = "one process, without a launcher; --launcher torchrun --nproc 1 starts one rank"
    for name in (*RANKS, *SINGLE):
        yield kept(env, name) if name in env else Setting(name, None, DEFAULT, why)


def _check(ranks: list[Setting], launch: Launch) -> None:
    known = {}
    for setting in ranks:
        if setting.value is not None:
            known[setting.name] = number({setting.name: setting.value}, setting.name)
        elif setting.name in ("RANK", "LOCAL_RANK"):
            why = "the ranks are numbered by hand, or by a launcher that does not set it"
            hint = f"export {setting.name} in each rank, or start them with srun or mpiexec"
            raise LaunchError(f"{setting.name} is not set", ENVIRONMENT, why, hint)
    pairs = {"RANK": "WORLD_SIZE"}
    # A single process may choose its GPU with LOCAL_RANK; some launchers set no local size.
    if known["WORLD_SIZE"] > 1 and "LOCAL_WORLD_SIZE" in known:
        pairs["LOCAL_RANK"] = "LOCAL_WORLD_SIZE"
    for name, size in pairs.items():
        if known[name] >= known[size]:
            what = f"{name}={known[name]} is not below {size}={known[size]}"
            hint = f"let the launcher number the ranks: unset {name} and {size}"
            first = not (known["LOCAL_RANK"] or known.get("NODE_RANK"))
            shown = first or launch.name == NONE or known[name] == known[size]
            raise LaunchError(what, ENVIRONMENT, "ranks are counted from 0", hint, shown=shown)


def _overridden(ranks: list[Setting], env: Mapping[str, str], launch: Launch) -> Iterator[str]:
    lost = [s for s in ranks if s.origin == launch.name and s.value and env.get(s.name)]
    if lost:
        unused = " ".join(f"{s.name}={env[s.name]}" for s in lost)
        used = " ".join(f"{s.name}={s.value}" for s in lost)
        yield (
            f"{unused}, set outside the ranks, is not used: {launch.title} set {used} "
            "(do not export it in the batch script)"
        )


def _no_srun(env: Mapping[str, str], launch: Launch) -> Iterator[str]:
    tasks = optional_number(env, "SLURM_NTASKS") or 1
    alone = launch.name == NONE and "SLURM_JOB_ID" in env and launch.fact("WORLD_SIZE") == 1
    if alone and tasks > 1:
        yield (
            f"this is a single process, but Slurm's job has {tasks} tasks: "
            "srun starts a rank for each of them"
        )
