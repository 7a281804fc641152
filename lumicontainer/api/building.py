"""Build what a recipe describes, unless it is there already."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.api.image import Image
from lumicontainer.api.values import BuildOptions, OnProgress, progress_of
from lumicontainer.building import disk_space, docker_output, pipeline
from lumicontainer.building.checks import reproducibility, script_syntax, unnoticed
from lumicontainer.building.checks.reproducibility import ChangedFile
from lumicontainer.building.layers.fetch import offers
from lumicontainer.building.secrets import read_secrets
from lumicontainer.cache import proven
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.store import Cache
from lumicontainer.core.model import Recipe
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.rules.rules import refuse
from lumicontainer.errors import InputError, Problem, Problems
from lumicontainer.host import site
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.host.recipes import resolve_recipe
from lumicontainer.image import digests, integrity, records, sif
from lumicontainer.jobs import folders
from lumicontainer.jobs.builds import CompileJobs
from lumicontainer.sandbox import runtimes
from lumicontainer.sandbox.builder import Builder, read_patience
from lumicontainer.sandbox.failures.causes import naming_causes
from lumicontainer.sandbox.workspace import workspace
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.system.waiting import completed


@dataclass(frozen=True)
class BuildOrder:
    """Hold what is built, and the file or the image of Docker that it becomes."""

    plan: Plan
    options: BuildOptions
    path: Path
    docker: str = ""
    """The name of an image of Docker, in place of the file."""
    current: bool = False
    """Whether it is there already."""
    warnings: tuple[Problem, ...] = ()
    compile_jobs: CompileJobs | None = None

    @property
    def output(self) -> str:
        """Return what the user named, as one word."""
        return f"{docker_output.PREFIX}{self.docker}" if self.docker else str(self.path)

    @property
    def name(self) -> str:
        """Return the name of the image or of its file."""
        return self.docker or self.path.name


def order(
    resolved: Resolved,
    output: str | Path | None,
    options: BuildOptions,
    compile_jobs: CompileJobs | None = None,
) -> BuildOrder:
    """Plan a build, and look whether its output is up to date; raise what is wrong with either."""
    _refuse_unfinished(resolved.recipe)
    script_syntax.refuse_unparsable(resolved)
    warnings = (*refuse(resolved.findings), *unnoticed.warnings(resolved, os.environ))
    plan = planned(resolved)
    path = Path(output or f"{resolved.recipe.name}.sif").absolute()
    if name := docker_output.name_of(output):
        current = not options.rebuild and docker_output.is_current(plan, name)
        return BuildOrder(plan, options, path, name, current, warnings)
    pipeline.check_output(path)
    current, doubts = _state(plan, path, options)
    return BuildOrder(plan, options, path, "", current, (*warnings, *doubts), compile_jobs)


def _refuse_unfinished(recipe: Recipe) -> None:
    """Raise ``InputError`` if an imported recipe names what its image does not have."""
    problems, why = Problems(), "the imported file has it"
    hint = "add it to the layer and delete this line, or delete the line to build without it"
    for each in recipe.missing:
        problems.add(f"the image would lack {each}", each.place, why=why, hint=hint)
    problems.raise_if_any()


def _state(plan: Plan, path: Path, options: BuildOptions) -> tuple[bool, Sequence[Problem]]:
    """Return whether a file is what a build would make, and the warning if its bytes changed."""
    if options.rebuild or not path.exists():
        return False, ()
    try:
        sif.root(path)
        checked = not options.verify or records.checked(path)
        if not (checked and records.key(path) == plan.steps[-1].key):
            return False, ()
        found = proven.is_whole(path)
    except (InputError, ValueError):
        return False, ()
    if found.state == digests.WHOLE:
        return True, ()
    hint = "do nothing: this build replaces it"
    return False, (integrity.problem(path, found, level="warning")._replace(hint=hint),)


@contextmanager
def _open_builder(order: BuildOrder, on_progress: OnProgress | None) -> Iterator[Builder]:
    """Return what a build works with, if this host can build."""
    plan, options = order.plan, order.options
    secrets = read_secrets(options.secrets, plan)
    mirrors = read_mirrors(options.mirrors)
    choice = runtimes.choose("docker" if order.docker else options.runtime)
    choice.runtime.require_plan(plan)
    store, shared = Cache(cache_root()).open(), SharedCache.named()
    # Only steps require it; meanwhile the cached layers are checked.
    release = plan.bootstrap.release if plan.bootstrap.by_debootstrap else ""
    recipe = plan.resolved.recipe.name
    with (
        ThreadPoolExecutor(1) as thread,
        progress_of(on_progress) as progress,
        workspace(recipe, progress.say, runtime=choice.runtime.name) as place,
    ):
        reading = thread.submit(site.read_site, release, mirrors)
        progress.say(choice.describe())
        _say_warnings(order, place.root, progress)
        builder = Builder(
            plan,
            choice.runtime,
            reading.result,
            progress,
            store,
            place,
            read_patience(),
            time.time(),
            jobs=options.jobs,
            fresh=options.rebuild,
            secrets=secrets,
            shared=shared,
            compile_jobs=order.compile_jobs,
        )
        with naming_causes(builder):
            yield builder


def _say_warnings(order: BuildOrder, place: Path, progress: Progress) -> None:
    on_shared = disk_space.shared_warning(place)
    for warning in (*order.warnings, *([on_shared] if on_shared else [])):
        progress.say(str(warning))
    for layer in order.plan.resolved.layers:
        if layer.omitted:
            progress.say(f"left out: {layer.name}: {layer.omitted}")


def require_replaceable(order: BuildOrder) -> None:
    """Raise ``InputError`` if an existing image has what a new one would not have."""
    if not (order.docker or order.current) and order.path.exists():
        pipeline.check_replaced(order.path)


def require_options(order: BuildOrder) -> None:
    """Raise an error for secrets, mirrors and a runtime with which no build begins."""
    if not order.current:
        read_secrets(order.options.secrets, order.plan)
        read_mirrors(order.options.mirrors)
        if runtime := order.options.runtime:
            runtimes.usable(runtime)


def taken(order: BuildOrder) -> dict[str, str]:
    """Return who published each layer that the build would take from the shared cache, by key."""
    shared = SharedCache.named()
    if order.current or order.options.rebuild or shared is None:
        return {}
    shared.require()
    return {each.key: each.publisher for each in offers(order.plan, Cache(cache_root()), shared)}


def compile_layer(order: BuildOrder, layer: str, on_progress: OnProgress | None) -> None:
    """Compile the wheels of one layer into the cache."""
    with _open_builder(order, on_progress) as builder:
        completed(pipeline.compile_layer(builder, layer), builder.progress)


def build_twice(order: BuildOrder, on_progress: OnProgress | None) -> list[ChangedFile]:
    """Build every layer twice; return the files that differ."""
    with _open_builder(order, on_progress) as builder:
        pipeline.require_space(builder, order.path)
        return completed(reproducibility.check(builder), builder.progress)


def make(order: BuildOrder, on_progress: OnProgress | None = None) -> Image:
    """Build what is ordered, unless it is current; return the image."""
    platform, options = order.plan.resolved.platform, order.options
    folders.reclaim(cache_root() / folders.FOLDERS)
    if order.current:
        return Image(order.path, platform)
    require_replaceable(order)
    with _open_builder(order, on_progress) as builder:
        if order.docker:
            docker_output.build(builder, order.docker, verify=options.verify)
        else:
            pipeline.build_file(builder, order.path, verify=options.verify)
        seconds = {name: round(each, 1) for name, each in builder.progress.times.items()}
    return Image(order.path, platform, seconds=seconds)


def build(
    recipe: str | Path | Resolved,
    output: str | Path | None = None,
    *,
    platform: str | None = None,
    options: BuildOptions | None = None,
    on_progress: OnProgress | None = None,
) -> Image:
    """Build an image and run its quick checks, unless the file is the image already.

    ``recipe`` is a name, a file, or what ``resolve`` returned, which has its platform. ``output``
    is by default the recipe's name with ``.sif`` in the current folder. Raises any error of
    ``lumicontainer.errors``; the file then stays as it was.
    """
    resolved = recipe if isinstance(recipe, Resolved) else resolve_recipe(recipe, platform=platform)
    found = order(resolved, output, options or BuildOptions())
    if found.docker:
        hint = f"lumicontainer build --output {output} leaves an image in Docker"
        raise InputError(Problem("expected the file of an image", str(output), hint=hint))
    return make(found, on_progress)
