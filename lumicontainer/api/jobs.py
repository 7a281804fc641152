"""Write the batch script of a job, judge what the job asks for, submit and follow it."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.api.starting import Binds, ImageRequest, find_binds
from lumicontainer.core.model import Partition, Platform
from lumicontainer.engines import find_engine
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.host.machine import is_there
from lumicontainer.jobs import follow, slurm
from lumicontainer.jobs.follow import Listener
from lumicontainer.jobs.scripts import batch, program
from lumicontainer.jobs.scripts.batch import Body, JobHeader
from lumicontainer.jobs.scripts.chain import RESTARTS, Chain, chain_faults, shell_pattern
from lumicontainer.jobs.scripts.cost import cost, hourly_cost
from lumicontainer.jobs.scripts.layout import Demand, NodeLayout, lay_out
from lumicontainer.jobs.scripts.slow_layouts import (
    CONFIGURATIONS,
    option_pairs,
    shape_of,
    slow_layouts,
)
from lumicontainer.jobs.scripts.times import minutes_of, time_words
from lumicontainer.system import process

ACCOUNT = "SBATCH_ACCOUNT"
"""The variable by which users name the account of all their jobs."""

_LARGEST_CONFIGURATION = 1 << 20
"""Bytes."""


@dataclass(frozen=True)
class JobRequest(ImageRequest):
    """Say what a job runs as each task, and what it asks Slurm for."""

    command: Sequence[str] = ()
    nodes: int | None = None
    """By default as many as the GPUs need, else one."""
    gpus: int | None = None
    """The GPUs of all nodes together, by default all that the nodes have."""
    tasks_per_node: int | None = None
    """By default one for each GPU, two without GPUs, one if it starts the ranks of a node."""
    memory: int | None = None
    """The bytes of a node's memory, by default the share of the GPUs."""
    launcher: str = ""
    """A launcher that starts the ranks of a node: one of ``program.LAUNCHERS``."""
    time: str = ""
    """As ``jobs.slurm.time_limit`` returns it."""
    partition: str = ""
    account: str = ""
    array: str = ""
    dependency: str = ""
    output: str = ""
    until_done: bool = False
    """Let the job send itself again until its program is done."""
    checkpoint: str = ""
    """With ``until_done``: a file, a folder or a pattern of the shell, newer after each save."""
    restarts: int | None = None
    """With ``until_done``: the jobs in a row without progress, by default ``chain.RESTARTS``."""

    @property
    def words(self) -> list[str]:
        """Return the command of each task."""
        return program.full_command(self.command, self.launcher)

    def demand(self) -> Demand:
        """Return what it asks Slurm for, in numbers."""
        return Demand(
            nodes=self.nodes,
            gpus=self.gpus,
            tasks=self.tasks_per_node,
            memory=self.memory,
            minutes=minutes_of(self.time) if self.time else None,
            partition=self.partition,
            jobs=(batch.array_size(self.array) if self.array else None) or 1,
            one_task=bool(program.launcher_of(self.words)),
        )

    def header(self) -> JobHeader:
        """Return what the job says of itself."""
        return JobHeader(
            name=re.sub(r"[^\w.-]", "_", self.image.stem),
            minutes=minutes_of(self.time) if self.time else None,
            partition=self.partition,
            account=self.account or os.environ.get(ACCOUNT, ""),
            array=self.array,
            dependency=self.dependency,
            output=self.output,
            chained=self.until_done,
        )

    def chain(self) -> Chain | None:
        """Return when the job sends itself again; None if it does not."""
        if not self.until_done:
            return None
        restarts = RESTARTS if self.restarts is None else self.restarts
        return Chain(shell_pattern(self.checkpoint), restarts, program.log_folder(self.words))


class JobScript(NamedTuple):
    """Hold the text of a batch script, warnings, and lines about what the job costs."""

    text: str
    options: Sequence[str]
    """The script's options of sbatch. On its command line they win over the user's variables."""
    problems: Sequence[Problem]
    notes: Sequence[str] = ()


def job_script(request: JobRequest) -> JobScript:
    """Return a batch script, which needs no lumicontainer on the nodes.

    Raises ``InputError`` with all that keeps the job from running.
    """
    platform, problems = request.find_platform(), list[Problem]()
    demand = request.demand()
    layout = lay_out(platform, demand, problems)
    problems += _faults(request, platform, layout)
    try:
        binds = find_binds(request, static=True)
    except InputError as error:
        raise InputError(*error.problems, *problems) from error
    if problems:
        raise InputError(*problems)
    options = batch.batch_options(layout, request.header())
    text = batch.batch_script(platform.slurm, layout, options, _body(request, binds, layout))
    words = [each.word for each in options]
    if problems := [*_ask_slurm(request, platform, text, words)]:
        raise InputError(*problems)
    shape = shape_of(request.command, _deepspeed_configuration(request.command))
    warnings = (*binds.problems, *slow_layouts(shape, layout))
    return JobScript(text, words, warnings, [*_cost_lines(platform, layout, demand)])


def _deepspeed_configuration(words: Sequence[str]) -> Mapping[str, Any]:
    """Return the configuration of DeepSpeed that a command names; empty if it cannot be read."""
    files = [value for option, value in option_pairs(words) if option in CONFIGURATIONS and value]
    for path in map(Path, files):
        with suppress(OSError, ValueError, RecursionError):
            if path.is_file() and path.stat().st_size <= _LARGEST_CONFIGURATION:
                data = json.loads(path.read_bytes())
                return data if isinstance(data, dict) else {}
    return {}


def _faults(request: JobRequest, platform: Platform, layout: NodeLayout) -> Iterator[Problem]:
    """Yield what of a request cannot be, beside its layout."""
    header = request.header()
    if platform.slurm.needs_account and not header.account:
        hint = f"add --account PROJECT, or export {ACCOUNT}=PROJECT"
        yield Problem(f"a job on {platform.name} needs an account", "--account", hint=hint)
    if header.array and batch.array_size(header.array) is None:
        hint = "write it like 0-7, 1,3,5 or 0-99%10"
        yield Problem(f"invalid array '{header.array}'", "--array", hint=hint)
    if header.dependency and not batch.DEPENDENCY.fullmatch(header.dependency):
        hint = "write it like afterok:1234, or singleton"
        yield Problem(f"invalid dependency '{header.dependency}'", "--dependency", hint=hint)
    yield from _output_faults(header.output)
    yield from _chain_faults(request, header)
    yield from program.program_faults(request.command, request.launcher, layout.gpus)
    script = program.script_of(request.command)
    if script and not Path(script).is_file():
        hint = "name it by its absolute path, or go to its folder first: the job starts there"
        yield Problem(f"program not found '{script}'", hint=hint)


def _chain_faults(request: JobRequest, header: JobHeader) -> Iterator[Problem]:
    if request.until_done:
        yield from chain_faults(request.checkpoint, header.array, header.minutes)
    elif request.checkpoint or request.restarts is not None:
        option = "--checkpoint" if request.checkpoint else "--restarts"
        hint = "add --until-done"
        yield Problem(f"{option} is for jobs that send themselves again", option, hint=hint)


def _output_faults(output: str) -> Iterator[Problem]:
    """Yield why Slurm could not write a job's log; it does not make folders."""
    if "\\" in output or not output.isprintable():
        hint = "name a file without backslashes and control characters"
        yield Problem(f"invalid log '{output}'", "--output", hint=hint)
    folder = Path(output).parent
    if output and "%" not in str(folder) and not folder.is_dir():
        hint = f"mkdir -p {shlex.quote(str(folder))}"
        why = "Slurm makes no folders: the job would fail without a log"
        yield Problem(f"folder not found '{folder}'", "--output", why, hint)


def _body(request: JobRequest, binds: Binds, layout: NodeLayout) -> Body:
    image = request.image.absolute()
    start = [binds.platform.engine, "exec", str(image)]
    if not binds.platform.engine:
        start = find_engine().execute(image, (), binds=())
    words = program.with_count(request.words, layout.gpus)
    return Body(binds.value, start, words, bool(binds.needs.exports), request.chain())


def _ask_slurm(
    request: JobRequest, platform: Platform, text: str, options: Sequence[str]
) -> Iterator[Problem]:
    """Yield why this host's Slurm would never run a job, if it is that of the platform."""
    if process.find("sbatch") is None or not all(map(is_there, platform.detect)):
        return
    try:
        why = slurm.why_never(options, request.partition, os.fsencode(text))
    except HostError:
        return
    if why and not slurm.cannot_be_asked(why):
        yield from slurm.refused(why).problems


def _cost_lines(platform: Platform, layout: NodeLayout, demand: Demand) -> Iterator[str]:
    """Yield what a job costs, and what it would cost in cheaper partitions."""
    partition, allocation = layout.partition, layout.allocation()
    if partition is None or allocation is None:
        return
    hour = hourly_cost(platform.slurm, partition, allocation)
    if hour is None:
        return
    line = f"on {partition.name} an hour costs {hour}"
    if demand.minutes:
        most = cost(platform.slurm, partition, allocation, demand.minutes * demand.jobs)
        jobs = f"{demand.jobs} jobs of " if demand.jobs > 1 else ""
        line += f", and {jobs}{time_words(demand.minutes)} costs {most}"
    yield line
    for other in platform.slurm.partitions:
        yield from _cheaper(platform, other, layout, demand._replace(partition=other.name))


def _cheaper(
    platform: Platform, other: Partition, layout: NodeLayout, demand: Demand
) -> Iterator[str]:
    """Yield what the same GPUs cost in another partition, if that is less."""
    problems = list[Problem]()
    same = demand._replace(gpus=layout.gpus * layout.nodes or None)
    allocation = lay_out(platform, same, problems).allocation()
    here = layout.allocation()
    if problems or other.debugging or bool(other.gpus) != bool(layout.gpus):
        return
    if layout.partition is None or here is None or allocation is None:
        return
    less = hourly_cost(platform.slurm, other, allocation)
    now = hourly_cost(platform.slurm, layout.partition, here)
    if less and now and less.amount < now.amount:
        yield f"with --partition {other.name} an hour of the same GPUs costs {less}"


def submit_job(script: JobScript) -> str:
    """Submit the job of a batch script; return its number."""
    slurm.require("write the script to a file, and submit it on a login node of the cluster")
    return slurm.submit(script.options, os.fsencode(script.text))


def wait_for_job(number: str, listener: Listener) -> str:
    """Pass on the log of a job until it ends; raise ``JobError`` if it did not succeed.

    Returns the number of the job that continues it, or an empty text.
    """
    follow.watch(number, slurm.log_of(number), listener)
    if following := slurm.next_of(number):
        return following
    slurm.require_success(number)
    return ""


def cancel_job(number: str) -> None:
    """Cancel a job, and the one that continues it if it was sent already."""
    slurm.cancel([number])
    if following := slurm.next_of(number):
        slurm.cancel([following])
