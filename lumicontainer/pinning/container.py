"""Run a program on layers in a container, to ask the tools of an image."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias

from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.steps import Plan
from lumicontainer.host.site import Site
from lumicontainer.sandbox import runtimes
from lumicontainer.sandbox.builder import Builder, Stack
from lumicontainer.sandbox.run import run_program, take_files
from lumicontainer.sandbox.step_run import StepRun
from lumicontainer.sandbox.workspace import LOCK, remove_tree, workspace
from lumicontainer.system.files.foreign import read_below
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.programs.patience import read_patience
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.system.waiting import complete

_LARGEST = 64 << 20
"""The largest answer of a program, in bytes."""


Finish: TypeAlias = Callable[[Builder, Stack, Mapping[str, bytes]], Awaitable[None]]


class Program(NamedTuple):
    """Hold a shell program, and what it runs on."""

    name: str
    """Its name in the progress."""
    text: str
    layers: Callable[[Builder], Awaitable[Stack]]
    """Returns the layers of a plan on which it runs."""
    fresh: bool = False
    """Whether these do not come from the cache."""
    finish: Finish | None = None
    """Gets the layers and the files that the program left, while these layers are in use."""


def answers(plan: Plan, site: Site, progress: Progress, program: Program) -> dict[str, bytes]:
    """Run a program on layers of a plan; return the files that it left, by name."""
    runtime = runtimes.choose().runtime
    runtime.require_plan(plan)
    store = Cache(cache_root()).open()
    recipe = plan.resolved.recipe.name + LOCK
    with workspace(recipe, progress.say, runtime=runtime.name) as place:
        began, patience = time.time(), read_patience()
        builder = Builder(
            plan,
            runtime,
            lambda: site,
            progress,
            store,
            place,
            patience,
            began,
            fresh=program.fresh,
        )

        async def run() -> dict[str, bytes]:
            stack = await program.layers(builder)
            with progress.step(program.name) as task:
                step = StepRun(builder, program.name, stack, task, apart=True)
                await run_program(step, program.text)
                files = {
                    each.name: read_below(each.parent, each.name, _LARGEST)
                    for each in take_files(step)
                }
                place.drop_log(program.name)
                await asyncio.to_thread(remove_tree, step.root)
            if program.finish:
                await program.finish(builder, stack, files)
            return files

        try:
            return complete(run(), progress)
        finally:
            # The tree of a failed build is worth more than this one.
            remove_tree(place.sandbox)
