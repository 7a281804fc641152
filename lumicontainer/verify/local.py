"""Run lumi-verify in containers of this host."""

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
from lumicontainer.system.waiting import together
from lumicontainer.verify.results import Part, read, row
from lumicontainer.verify.subject import Row

_CLEANED = ("cleanenv", "containall")
"""Ways in which a container gets nothing of the environment, so nothing of Slurm's variables."""
_ONE = {"WORLD_SIZE": "1"}
"""Tells lumi-verify that it is the only process: within a task of srun it asks."""


@dataclass(frozen=True)
class Host:
    """Hold what starts containers of an image here, and who is told each line."""

    engine: Engine
    image: Path
    needs: Needs
    tell: Callable[[str], None] = lambda _: None

    def command(self, words: Sequence[str], way: str = "exec") -> list[str]:
        """Return the command that runs ``words`` in the image."""
        return self.engine.execute(
            self.image,
            words,
            binds=[str(mount) for mount in self.needs.mounts],
            environment={
                **{each.name: each.value for each in self.needs.variables},
                **(_ONE if way in _CLEANED else {}),
            },
            way=way,
        )


def host_for(image: Path, platform: Platform, tell: Callable[[str], None] = lambda _: None) -> Host:
    """Return what starts containers of an image here; raise ``HostError`` where none can."""
    needs = needs_of(image, platform)
    if needs.unfit():
        raise HostError(*needs.problems)
    return Host(find_engine(), image, needs, tell)


def words(checks: Sequence[Row], required: str) -> list[str]:
    """Return the command, in an image, that runs checks and prints what came of them as JSON."""
    chosen = [word for check in checks for word in ("-k", check["name"])]
    return [VERIFY, "--json", "-", *(["--require", required] if required else []), *chosen]


def run(host: Host, checks: Sequence[Row], *, required: str) -> Part:
    """Run checks in one container; return what lumi-verify reported."""
    if not checks:
        return Part(checks)
    return asyncio.run(_part(host.command(words(checks, required)), checks, host.tell))


def run_ways(
    host: Host, checks: Sequence[Row], done: Callable[[Row], Row], *, required: str
) -> list[Row]:
    """Run each check in a container that is started in its way; return the results in order.

    One container per processor runs at a time. ``done`` takes each result when it is there.
    """
    return asyncio.run(_run_ways(host, checks, done, required)) if checks else []


async def _run_ways(
    host: Host, checks: Sequence[Row], done: Callable[[Row], Row], required: str
) -> list[Row]:
    free = asyncio.Semaphore(len(os.sched_getaffinity(0)))

    async def one(check: Row) -> Row:
        async with free:
            return done(await _run_way(host, check, required))

    async with together() as group:
        running = [group.create_task(one(check)) for check in checks]
    return [each.result() for each in running]


async def _run_way(host: Host, check: Row, required: str) -> Row:
    """Run a check in its way. It fails where nothing comes back: that way does not work."""
    own = {**check, "name": check["of"]}
    command = host.command(words([own], required), check["way"])
    part = await _part(command, [own], lambda _: None)
    if part.data is None:
        return row(check, Outcome(FAILED, part.why))
    return {**part.rows()[0], "name": check["name"]}


async def _part(command: Sequence[str], checks: Sequence[Row], tell: Callable[[str], None]) -> Part:
    output = io.StringIO()
    with tempfile.TemporaryFile() as result:
        status = await process.logged(command, output, env=os.environ, on_line=tell, result=result)
        result.seek(0)
        data = read(result.read())
    how = f"lumi-verify did not report ({process.describe(status)})"
    return Part(checks, data, "" if data else f"{how}\n{last_lines(output.getvalue())}".rstrip())
