"""Run lumi-verify as a Slurm job: write the batch script, submit it, follow it, collect."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.core.model import Platform
from lumicontainer.core.render.jinja import fill
from lumicontainer.engines import Engine
from lumicontainer.errors import Problem
from lumicontainer.image.records import read_results
from lumicontainer.inside.node.cpulist import parse_cpus
from lumicontainer.jobs import command, follow, slurm, variables
from lumicontainer.jobs.folders import FOLDERS, job_folder, mark_failed
from lumicontainer.jobs.follow import Listener, SbatchOptions
from lumicontainer.system import budget, process
from lumicontainer.system.files.user_cache import cache_root, require_usable
from lumicontainer.system.programs.output_log import read_end
from lumicontainer.verify.local import names, verify_command
from lumicontainer.verify.results import PartialResult, passed
from lumicontainer.verify.subject import Row

MPI, NO_MPI = "pmi2", "none"
"""srun's name for how MPI's ranks connect: MPICH and Cray MPICH use PMI-2."""
_SPARE = 5
"""Minutes of a job, or of a step, besides its checks': containers start, ranks connect."""
_MOST = 60
"""Minutes that a job requests at most: checks rarely use their limits. SBATCH_TIMELIMIT wins."""


@dataclass(frozen=True)
class JobStep:
    """Hold the checks of one step of a job, and how its ranks connect."""

    checks: tuple[Row, ...]
    mpi: str = NO_MPI


@dataclass(frozen=True)
class Job:
    """Hold the steps of a job, and what it runs with."""

    image: Path
    platform: Platform
    engine: Engine
    steps: Sequence[JobStep]
    nodes: int = 1
    partition: str = ""
    account: str = ""
    required: str = ""
    binds: bool = False
    """Whether its containers take anything of the node."""
    recipes: Path | None = None
    """The user's folder of recipes, which may define the platform."""


@dataclass(frozen=True)
class Collected:
    """Hold the results of checks, and the problem of their job if it failed."""

    parts: tuple[PartialResult, ...]
    problem: Problem | None = None
    rows: tuple[Row, ...] = ()
    """The results of checks that are in no part."""


def steps(checks: Sequence[Row]) -> list[JobStep]:
    """Return the steps that run checks: one for each check of MPI, one for all others.

    A process can become a rank of MPI only once.
    """
    plain = tuple(check for check in checks if not is_of_mpi(check))
    own = [JobStep((check,), MPI) for check in checks if is_of_mpi(check)]
    return [*([JobStep(plain)] if plain else []), *own]


def is_of_mpi(check: Row) -> bool:
    """Return whether the ranks of a check are ranks of MPI."""
    return check.get("runs") == "ranks" and bool(check.get("needs", {}).get("mpi"))


def minutes(checks: Sequence[Row]) -> int:
    """Return a time limit in which all checks end."""
    seconds: int = sum(check["timeout_seconds"] for check in checks)
    return _SPARE + -(-seconds // 60)


def binds_command(image: Path, platform: Platform, recipes: Path | None) -> list[str]:
    """Return the command that prints, on a node, the binds of an image."""
    words = ("binds", "--platform", platform.name)
    command = process.own_python("-m", "lumicontainer", *words)
    if recipes:
        command += ["--recipes", str(recipes.absolute())]
    return [*command, str(image.absolute())]


def tasks(platform: Platform) -> int:
    """Return the ranks of a node: one for each GPU; two on a node without GPUs."""
    return len(platform.gpus) or 2


def cpus(platform: Platform) -> int:
    """Return the cores next to a GPU; 0 without GPUs."""
    return len(parse_cpus(platform.gpus[0].cores)) if platform.gpus else 0


def script(job: Job, folder: Path) -> str:
    """Return the batch script of a job that writes its results to ``folder``."""
    *start, image = job.engine.execute(job.image.absolute(), (), binds=())
    return fill(
        "verify.sh.j2",
        image=image,
        start=start,
        command=verify_command((), job.required),
        binds=binds_command(job.image, job.platform, job.recipes) if job.binds else [],
        folder=str(folder),
        variables=variables.FILE,
        nodes=job.nodes,
        tasks=tasks(job.platform),
        cpus=cpus(job.platform),
        minutes=min(_MOST, minutes([check for step in job.steps for check in step.checks])),
        steps=[[str(minutes(step.checks)), step.mpi, *names(step.checks)] for step in job.steps],
    )


def run(job: Job, listener: Listener) -> Collected:
    """Run a job to its end and return its results; cancel it if this is interrupted."""
    if not job.steps:
        return Collected(())
    slurm.require("leave out --nodes and --partition to verify on this host")
    sbatch = SbatchOptions(job.partition, job.account, more=variables.OPTIONS)
    cache = cache_root()
    require_usable(cache)
    with job_folder(cache / FOLDERS, "lumi-verify-") as folder:
        variables.write_variables(folder)
        end = follow.run(folder, script(job, folder), sbatch, listener)
        collected = _collect(job, folder, _ask_how(job, folder, end))
        if collected.problem:
            mark_failed(folder)
    return collected


def _ask_how(job: Job, folder: Path, end: follow.End) -> str:
    """Return in words how Slurm ended a job; empty if its script ended by itself."""
    if end.how or all((folder / f"{number}.code").exists() for number in range(len(job.steps))):
        return end.how
    how = command.ask_how(end)
    return "" if how.startswith(("COMPLETED", "FAILED")) else how


def _read_report(path: Path) -> bytes:
    """Return a report, or only the beginning of one that is too long, which is not valid."""
    with path.open("rb") as file:
        return file.read(budget.REPORT.most)


def _collect(job: Job, folder: Path, end: str) -> Collected:
    log = folder / follow.LOG
    parts = []
    for number, step in enumerate(job.steps):
        path, code = folder / f"{number}.json", folder / f"{number}.code"
        data = read_results(_read_report(path)) if path.exists() else None
        status = code.read_text().strip() if code.exists() else ""
        ended = f"exit code {status}" if status else end or "it did not start"
        why = ""
        if data is None:
            why = f"the step did not report ({ended}): {log}"
        elif status != str(int(not passed(data))):
            why = f"the exit code of the step differs from its report ({ended}): {log}"
        parts.append(PartialResult(step.checks, data, why))
    failed = [part.why or part.interrupted for part in parts if part.why or part.interrupted]
    if not failed:
        return Collected(tuple(parts))
    printed = process.last_lines(read_end(log)) if log.exists() else ""
    why = "\n".join(filter(None, (end or failed[0], printed)))
    hint = f"{slurm.ASKS}; sbatch accepts the script next to the log once more"
    if slurm.LOST in end:
        hint = "repeat the command; Slurm takes other nodes meanwhile"
    where = f"the whole log: {log}"
    if not log.exists():
        where, why, hint = str(log.parent), f"{why}; {command.NOT_SEEN}", command.SEEN_BY_ALL
    problem = Problem("the job failed", where, why, hint)
    return Collected(tuple(parts), problem)
