"""Run lumi-verify in containers on this host."""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.build.failures.failure import last_lines
from lumicontainer.core.model import Platform
from lumicontainer.core.plan.plan import VERIFY
from lumicontainer.engines import Engine, find_engine
from lumicontainer.errors import HostError
from lumicontainer.host.binds import Needs, needs_of
from lumicontainer.inside.verify.outcome import FAILED, Outcome
from lumicontainer.system import process
from lumicontainer.system.waiting import task_group
from lumicontainer.verify.results import PartialResult, read, row
from lumicontainer.verify.subject import Row

_CLEANED = ("cleanenv", "containall")
"""Start modes in which a container gets no environment, so none of Slurm's variables."""
_ONE = {"WORLD_SIZE": "1"}
"""Makes lumi-verify run alone: in a task of srun it would wait for other ranks."""


@dataclass(frozen=True)
class Host:
    """Start containers of an image on this host."""

    engine: Engine
    image: Path
    needs: Needs
    on_line: Callable[[str], None] = lambda _: None
    """Receives each line that lumi-verify prints."""

    def command(self, words: Sequence[str], way: str = "exec") -> list[str]:
        """Return the command that runs ``words`` in the image."""
        variables = {each.name: each.value for each in self.needs.variables}
        return self.engine.execute(
            self.image,
            words,
            binds=[str(mount) for mount in self.needs.mounts],
            environment={**variables, **(_ONE if way in _CLEANED else {})},
            way=way,
        )


def host_for(
    image: Path, platform: Platform, on_line: Callable[[str], None] = lambda _: None
) -> Host:
    """Return what starts containers of an image; raise ``HostError`` if the image cannot run."""
    needs = needs_of(image, platform)
    if needs.unfit():
        raise HostError(*needs.problems)
    return Host(find_engine(), image, needs, on_line)


def words(checks: Sequence[Row], required: str) -> list[str]:
    """Return the command, in an image, that runs checks and prints their results as JSON."""
    chosen = [word for check in checks for word in ("-k", check["name"])]
    return [VERIFY, "--json", "-", *(["--require", required] if required else []), *chosen]


def run(host: Host, checks: Sequence[Row], *, required: str) -> PartialResult:
    """Run checks in one container; return the report of lumi-verify."""
    if not checks:
        return PartialResult(checks)
    return asyncio.run(_run(host.command(words(checks, required)), checks, host.on_line))


def run_ways(
    host: Host, checks: Sequence[Row], done: Callable[[Row], Row], *, required: str
) -> list[Row]:
    """Run each check in a container of its start mode; return the results in order.

    One container for each processor runs at a time. ``done`` receives each result at once.
    """

    async def run_all() -> list[Row]:
        free = asyncio.Semaphore(len(os.sched_getaffinity(0)))

        async def one(check: Row) -> Row:
            async with free:
                return done(await _run_way(host, check, required))

        async with task_group() as group:
            running = [group.create_task(one(check)) for check in checks]
        return [each.result() for each in running]

    return asyncio.run(run_all()) if checks else []


async def _run_way(host: Host, check: Row, required: str) -> Row:
    own = {**check, "name": check["of"]}
    command = host.command(words([own], required), check["way"])
    part = await _run(command, [own], lambda _: None)
    if part.data is None:
        return row(check, Outcome(FAILED, part.why))
    return {**part.rows()[0], "name": check["name"]}


async def _run(
    command: Sequence[str], checks: Sequence[Row], on_line: Callable[[str], None]
) -> PartialResult:
    output = io.StringIO()
    with tempfile.TemporaryFile() as result:
        status = await process.logged(
            command, output, env=os.environ, on_line=on_line, result=result
        )
        result.seek(0)
        data = read(result.read())
    if data:
        return PartialResult(checks, data)
    what = f"lumi-verify did not report ({process.describe(status)})"
    return PartialResult(checks, None, f"{what}\n{last_lines(output.getvalue())}".rstrip())
