"""Send a build to Slurm as a job, which repeats the command on its node."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from lumicontainer.api.building import BuildOrder
from lumicontainer.building import disk_space
from lumicontainer.building.secrets import read_secrets
from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError
from lumicontainer.jobs import builds
from lumicontainer.jobs.builds import Invocation
from lumicontainer.jobs.command import Resources
from lumicontainer.jobs.follow import Asked
from lumicontainer.sandbox import runtimes
from lumicontainer.system.files.user_cache import cache_root


class JobOptions(NamedTuple):
    """Say how the job of a build runs."""

    command: Invocation
    asked: Asked
    cores: int
    compile_jobs: bool = False
    """Whether layers compile in jobs of their own."""


def send(order: BuildOrder, job: JobOptions, on_line: Callable[[str], None]) -> tuple[int, str]:
    """Build in a job; return its exit code and its stdout.

    Raises here what the node would find only later.
    """
    plan, options = order.plan, order.options
    read_secrets(options.secrets, plan)
    with suppress(HostError):  # The node may have what this host has not.
        name = options.runtime
        runtime = runtimes.RUNTIMES[name]() if name else runtimes.choose().runtime
        runtime.require_plan(plan)
    cache = Cache(cache_root()).open()
    found = disk_space.sizes(plan, cache)
    disk_space.require(disk_space.results(found, cache.root, order.path))
    resources = _resources(order, job, found)
    places = {"cache": cache.root, "output": order.path}
    return builds.run(job.command, job.asked, resources, **places, on_line=on_line)


def submitted(order: BuildOrder, job: JobOptions) -> list[str]:
    """Return the options of sbatch with which ``send`` would submit the job."""
    found = disk_space.sizes(order.plan, Cache(cache_root()))
    return [*job.asked.options(), *_resources(order, job, found).options()]


def _resources(order: BuildOrder, job: JobOptions, found: disk_space.Sizes) -> Resources:
    """Return the cores and the memory of a build's job; its tree may lie in memory."""
    here = [step for step in order.plan.steps if not (job.compile_jobs and step.compiled)]
    memory = job.cores * max(step.memory_per_job for step in here)
    return Resources(job.cores, memory + found.temporary(unpacks=True, unpacked=False))
