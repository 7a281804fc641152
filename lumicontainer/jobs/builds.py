"""Send a build to Slurm: the whole build as one job, and its compile steps as further jobs."""

import asyncio
import re
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lumicontainer import errors
from lumicontainer.errors import HostError, JobError, LumicontainerError, Problem
from lumicontainer.jobs import command, follow, slurm
from lumicontainer.jobs.command import CommandJob, Resources
from lumicontainer.jobs.folders import FOLDERS, job_folder, mark_beside
from lumicontainer.jobs.follow import Listener, SbatchOptions
from lumicontainer.system import process
from lumicontainer.system.programs.output_log import read_end
from lumicontainer.system.terminal.progress import Task

_ERRORS: tuple[type[LumicontainerError], ...]
_ERRORS = (errors.InputError, HostError, errors.StepError, errors.DownloadError, errors.SpaceError)
_SPARE = 4 << 30
"""Bytes of memory besides the compilers': if /tmp is in memory, the files of the step count."""


class Invocation(NamedTuple):
    """Hold a command line, which jobs repeat with more options."""

    verb: Sequence[str]
    """The program and the verb."""
    arguments: Sequence[str]

    def with_options(self, *options: str) -> list[str]:
        """Return the command line with more options."""
        return [*self.verb, *options, *self.arguments]


def run(
    words: Invocation,
    sbatch: SbatchOptions,
    resources: Resources,
    *,
    cache: Path,
    output: Path,
    on_line: Callable[[str], None],
) -> tuple[int, str]:
    """Run a build as a job; return its exit code and its stdout.

    Cancels the job and its compile jobs if this is interrupted. Raises ``JobError`` if the job
    does not end by itself.
    """
    # A comma would separate two names for scancel.
    stem = re.sub(r"[^\w.-]", "_", output.stem)
    parent, prefix = cache / FOLDERS, f"lumi-build-{stem}-"
    with job_folder(parent, prefix) as folder, mark_beside(output, folder) as mark:
        again = words.with_options("--job", str(folder))
        job = CommandJob(again, folder, sbatch, resources, (mark,))
        try:
            code = command.run(job, Listener(on_line, on_line))
        except BaseException:
            with suppress(HostError):
                slurm.cancel([f"--name={folder.name}"])
                slurm.wait_for_end([f"--name={folder.name}"])
            raise
        result = folder / command.RESULT
        return code, result.read_text() if result.exists() else ""


@dataclass(frozen=True)
class CompileJobs:
    """Hold what the compile jobs of a build work with; they have the name of the build's job."""

    command: Invocation
    folder: Path
    """The folder of the build's job."""
    sbatch: SbatchOptions
    cores: int
    at_once: int
    running: set[asyncio.Future[int]] = field(default_factory=set)

    async def compile(self, layer: str, memory_per_job: int, task: Task) -> None:
        """Compile a layer in a separate job; cancel the job if this is cancelled.

        If the node of the job dies, send one more job. If that dies too, or Slurm ends a job, wait
        for the other jobs, whose wheels the next build takes.
        """
        try:
            try:
                await self._compile(layer, memory_per_job, task)
            except command.LostJobError:
                await self._compile(layer, memory_per_job, task)
        except JobError:
            if self.running:
                task.waiting("its job failed; waiting for the other compile jobs")
                await asyncio.wait(self.running)
            raise

    async def _compile(self, layer: str, memory_per_job: int, task: Task) -> None:
        folder = Path(tempfile.mkdtemp(prefix=f"{layer}-", dir=self.folder))
        resources = Resources(self.cores, self.cores * memory_per_job + _SPARE)
        words = self.command.with_options("--only-compile", layer)
        job = CommandJob(words, folder, self.sbatch, resources, name=self.folder.name)
        listener = Listener(task.line, task.waiting)
        with ThreadPoolExecutor(1) as thread:
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(thread, command.run, job, listener)
            self.running.add(running)
            try:
                code = await asyncio.shield(running)
            except asyncio.CancelledError:
                listener.stop.set()
                with suppress(follow.Interrupted, LumicontainerError):
                    await running
                raise
            finally:
                self.running.discard(running)
        if code:
            raise _failed(layer, code, folder / follow.LOG)


def _failed(layer: str, code: int, log: Path) -> LumicontainerError:
    """Return the error of a compile job that ended with an exit code."""
    kind = next((each for each in _ERRORS if each.code == code), JobError)
    why = process.last_lines(read_end(log).rpartition("\nerror: ")[2])
    return kind(Problem(f"the compile job of '{layer}' failed (exit code {code})", str(log), why))
