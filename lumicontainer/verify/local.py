"""Run lumi-verify in containers on this host."""

import asyncio
import io
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.constants import VERIFY
from lumicontainer.core.model import Platform
from lumicontainer.engines import Engine, find_engine
from lumicontainer.errors import HostError
from lumicontainer.host.binds import Needs, needs_of
from lumicontainer.image.records import read_results
from lumicontainer.inside.verify.local import BESIDE, runs_beside_others
from lumicontainer.inside.verify.outcome import FAILED, Outcome
from lumicontainer.system import budget, process
from lumicontainer.system.programs import logged
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.system.waiting import complete, task_group
from lumicontainer.verify.results import PartialResult, row
from lumicontainer.verify.subject import Row

_CLEANED = ("cleanenv", "containall")
"""Start modes in which a container gets no environment, so none of Slurm's variables."""
_ONE = {"WORLD_SIZE": "1"}
"""Makes lumi-verify run alone: in a task of srun it would wait for other ranks."""


class Host(NamedTuple):
    """Start containers of an image on this host."""

    engine: Engine
    image: Path
    needs: Needs
    on_line: Callable[[str], None] = lambda _: None
    """Receives each line that lumi-verify prints."""

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that containers need."""
        return {each.name: each.value for each in self.needs.variables}

    def command(
        self, words: Sequence[str], way: str = "exec", binds: Sequence[str] = ()
    ) -> list[str]:
        """Return the command that runs ``words`` in the image, which also sees ``binds``."""
        return self.engine.execute(
            self.image,
            words,
            binds=[*map(str, self.needs.mounts), *binds],
            environment={**self.variables, **(_ONE if way in _CLEANED else {})},
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


def names(checks: Sequence[Row]) -> list[str]:
    """Return the options of lumi-verify that name checks."""
    return [word for check in checks for word in ("-k", check["name"])]


def verify_command(checks: Sequence[Row], required: str) -> list[str]:
    """Return the command, in an image, that runs checks and prints their results as JSON."""
    needs = ["--require", required] if required else []
    return [VERIFY, "--json", "-", *needs, *names(checks)]


def run(
    host: Host,
    checks: Sequence[Row],
    ways: Sequence[Row] = (),
    *,
    required: str,
    progress: Progress,
    done: Callable[[Row], Row] = lambda row: row,
) -> tuple[PartialResult, list[Row]]:
    """Run ``checks`` in one container, and each of ``ways`` in a container of its start mode.

    Return the report of lumi-verify and the results of ``ways``. ``done`` receives each of these
    at once. A check that must run alone runs before them. The others share the processors with
    half as many of ``ways``.
    """

    async def run_all() -> tuple[PartialResult, list[Row]]:
        free = asyncio.Semaphore(max(1, len(os.sched_getaffinity(0)) // 2))

        async def one(check: Row) -> Row:
            async with free:
                return done(await _run_way(host, check, required))

        async with task_group() as group:
            command = host.command(verify_command(checks, required))
            part = group.create_task(_run(command, checks, host.on_line))
            if not all(map(runs_beside_others, checks)):
                await part
            running = [group.create_task(one(check)) for check in ways]
        return part.result(), [each.result() for each in running]

    return complete(run_all(), progress)


async def _run_way(host: Host, check: Row, required: str) -> Row:
    own = {**check, "name": check["of"]}
    words = host.command(verify_command([own], required), check["way"])
    command = ["nice", "-n", str(BESIDE), *words]
    part = await _run(command, [own], lambda _: None)
    if part.data is None:
        return row(check, Outcome(FAILED, part.why))
    return {**part.rows()[0], "name": check["name"]}


async def _run(
    command: Sequence[str], checks: Sequence[Row], on_line: Callable[[str], None]
) -> PartialResult:
    if not checks:
        return PartialResult(checks)
    output = io.StringIO()
    with tempfile.TemporaryFile() as result:
        try:
            status = await logged.run_logged(
                command,
                output,
                env=os.environ,
                on_line=on_line,
                result=result,
                limits=budget.report_of(each["timeout_seconds"] for each in checks),
            )
        except process.OverLimitError as error:
            return PartialResult(checks, None, error.problems[0].why)
        result.seek(0)
        data = read_results(result.read())
    if data:
        return PartialResult(checks, data)
    what = f"lumi-verify did not report ({process.describe(status)})"
    return PartialResult(checks, None, f"{what}\n{process.last_lines(output.getvalue())}".rstrip())
