"""Send a build to Slurm as a job, which repeats the command on its node."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lumicontainer.api.values import BuildOptions
from lumicontainer.building import disk_space
from lumicontainer.building.secrets import read_secrets
from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.steps import Plan
from lumicontainer.errors import HostError
from lumicontainer.jobs import builds
from lumicontainer.jobs.builds import CompileJobs, Invocation
from lumicontainer.jobs.command import Resources
from lumicontainer.jobs.follow import SbatchOptions
from lumicontainer.sandbox import runtimes
from lumicontainer.system.files.user_cache import cache_root

CORES = 8
"""The cores of a job if the options name no number of compile jobs."""


@dataclass(frozen=True)
class BuildJob:
    """Say how a job repeats the command line of a build."""

    command: Invocation
    sbatch: SbatchOptions
    cores: int = CORES
    at_once: int | None = None
    """The number of layers that compile at the same time in jobs of their own, if any do."""
    folder: Path | None = None
    """The folder of the job that runs this process, if one does."""

    def on(self, platform: str) -> Invocation:
        """Return the command line for a node, which may not detect the platform."""
        return self.command._replace(arguments=[f"--platform={platform}", *self.command.arguments])

    def compile_jobs(self, platform: str) -> CompileJobs | None:
        """Return the jobs in which the job of this process compiles, if it does."""
        if not (self.folder and self.at_once):
            return None
        return CompileJobs(self.on(platform), self.folder, self.sbatch, self.cores, self.at_once)


class SentBuild(NamedTuple):
    """Hold the exit code of a build in a job, and its stdout."""

    code: int
    printed: str


def send(
    plan: Plan,
    output: Path,
    job: BuildJob,
    options: BuildOptions,
    on_line: Callable[[str], None],
) -> SentBuild:
    """Build in a job; return its exit code and its stdout.

    Raises here what the node would find only later.
    """
    read_secrets(options.secrets, plan)
    with suppress(HostError):  # The node may have what this host has not.
        name = options.runtime
        runtime = runtimes.RUNTIMES[name]() if name else runtimes.choose().runtime
        runtime.require_plan(plan)
    cache = Cache(cache_root()).open()
    sizes = disk_space.sizes(plan, cache)
    disk_space.require(disk_space.results(sizes, cache.root, output))
    command, places = job.on(plan.resolved.platform.name), {"cache": cache.root, "output": output}
    resources = _resources(plan, job, sizes)
    return SentBuild(*builds.run(command, job.sbatch, resources, **places, on_line=on_line))


def submitted(plan: Plan, job: BuildJob) -> list[str]:
    """Return the options of sbatch with which ``send`` would submit the job."""
    sizes = disk_space.sizes(plan, Cache(cache_root()))
    return [*job.sbatch.options(), *_resources(plan, job, sizes).options()]


def _resources(plan: Plan, job: BuildJob, sizes: disk_space.Sizes) -> Resources:
    """Return the cores and the memory of a build's job; its tree may lie in memory."""
    here = [step for step in plan.steps if not (job.at_once and step.compiled)]
    memory = job.cores * max(step.memory_per_job for step in here)
    return Resources(job.cores, memory + sizes.temporary(unpacks=True, unpacked=False))
