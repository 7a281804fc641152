"""Build what a recipe describes, unless it is there already."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from lumicontainer.api import sending
from lumicontainer.api.build_results import (
    BuildOrder,
    BuildResult,
    BuiltImage,
    Comparison,
    CompiledLayer,
    PlannedBuild,
)
from lumicontainer.api.image import Image
from lumicontainer.api.recipes import RecipeRequest
from lumicontainer.api.sending import BuildJob
from lumicontainer.api.values import BuildOptions, OnProgress, progress_of
from lumicontainer.building import disk_space, pipeline
from lumicontainer.building.checks import reproducibility, script_syntax, unnoticed
from lumicontainer.building.docker_output import DockerOutput, output_of
from lumicontainer.building.file_output import FileOutput
from lumicontainer.building.layers import exchange
from lumicontainer.building.layers.fetch import doubts, known_stack
from lumicontainer.building.output import BuildOutput
from lumicontainer.building.secrets import read_secrets
from lumicontainer.cache.store import Cache
from lumicontainer.core.model import Recipe
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.rules.rules import refuse
from lumicontainer.errors import InputError, LumicontainerError, Problem, Problems
from lumicontainer.host import site
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.jobs import folders, slurm
from lumicontainer.registry.send_objects import SentObjects
from lumicontainer.sandbox import runtimes
from lumicontainer.sandbox.builder import Builder
from lumicontainer.sandbox.failures.causes import naming_causes
from lumicontainer.sandbox.workspace import workspace
from lumicontainer.system.connections import Connections
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.programs.patience import read_patience
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.system.waiting import complete


@dataclass(frozen=True)
class BuildRequest(RecipeRequest):
    """Say what is built, and what for: an image, unless another field is set."""

    output: BuildOutput | None = None
    """By default the file RECIPE.sif in the current folder."""
    options: BuildOptions = field(default_factory=BuildOptions)
    locked: bool = False
    """Whether the pins of the lock are used only."""
    dry_run: bool = False
    """Whether the steps are planned, and nothing is done."""
    check: bool = False
    """Whether every step is built twice to compare its files, and no image is written."""
    only_compile: str = ""
    """The layer that is compiled into the cache; no image is written."""
    job: BuildJob | None = None

    def require_valid(self) -> None:
        """Raise ``InputError`` if only an image file can be what is asked for."""
        if self.job:
            slurm.require("leave out --on to build on this host")
        for_files = {
            "--on": self.job,
            "--only-compile": self.only_compile,
            "--check": self.check,
            "--dry-run": self.dry_run,
        }
        options = [option for option, value in for_files.items() if value]
        if isinstance(self.output, DockerOutput) and options:
            what = f"{options[0]} needs an image file"
            hint = "leave it out, or name a file by --output"
            raise InputError(Problem(what, "--output docker:NAME", hint=hint))

    @property
    def makes_an_image(self) -> bool:
        """Return whether the result is an image."""
        return not (self.check or self.only_compile)


def run_build(
    request: BuildRequest,
    on_progress: OnProgress | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> BuildResult:
    """Do what a request asks for; ``on_line`` receives the lines of a job."""
    request.require_valid()
    order, job = _order(request), request.job
    if not request.check:
        _require_replaceable(order)
    if request.dry_run:
        return _preview(order, job)
    if job and not (job.folder or (order.current and request.makes_an_image)):
        return sending.send(order.plan, order.output.path, job, order.options, on_line)
    if request.only_compile:
        return _compile_layer(order, request.only_compile, on_progress)
    if request.check:
        return _build_twice(order, on_progress)
    return _make(order, on_progress)


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
    place, chosen = output_of(output), options or BuildOptions()
    if isinstance(place, DockerOutput):
        hint = f"lumicontainer build --output {output} leaves an image in Docker"
        raise InputError(Problem("expected the file of an image", str(output), hint=hint))
    request = BuildRequest(recipe, platform, output=place, options=chosen)
    order = _order(request)
    return _make(order, on_progress).image


def _order(request: BuildRequest) -> BuildOrder:
    """Plan a build, and look whether its output is up to date; raise what is wrong with either."""
    options, job = request.options, request.job
    exchange.require_target(options.cache_to, options.cache_sign)
    tuple(exchange.find_caches(options.cache_from))
    resolved = request.resolve(locked=request.locked)
    _refuse_unfinished(resolved.recipe)
    script_syntax.refuse_unparsable(resolved)
    warnings = (*refuse(resolved.findings), *unnoticed.warnings(resolved, os.environ))
    plan = planned(resolved)
    output = request.output or FileOutput(Path(f"{resolved.recipe.name}.sif"))
    state = output.look(plan, options.build_date, verify=options.verify, fresh=options.rebuild)
    jobs = None
    if job and not request.only_compile:
        jobs = job.compile_jobs(resolved.platform.name)
    warnings, folder = (*warnings, *state.warnings), job.folder if job else None
    return BuildOrder(plan, options, output, state, warnings, jobs, folder)


def _refuse_unfinished(recipe: Recipe) -> None:
    """Raise ``InputError`` if an imported recipe names what its image does not have."""
    problems, why = Problems(), "the imported file has it"
    hint = "add it to the layer and delete this line, or delete the line to build without it"
    for each in recipe.missing:
        problems.add(f"the image would lack {each}", each.place, why=why, hint=hint)
    problems.raise_if_any()


@contextmanager
def _open_builder(order: BuildOrder, on_progress: OnProgress | None) -> Iterator[Builder]:
    """Return what a build works with, if this host can build."""
    plan, options = order.plan, order.options
    secrets = read_secrets(options.secrets, plan)
    mirrors = read_mirrors(options.mirrors)
    choice = runtimes.choose(order.output.runtime(options.runtime))
    choice.runtime.require_plan(plan)
    store = Cache(cache_root()).open()
    # Only steps require it; meanwhile the cached layers are checked.
    release = plan.bootstrap.release if plan.bootstrap.by_debootstrap else ""
    recipe = plan.resolved.recipe.name
    with (
        Connections() as connections,
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
            build_date=options.build_date,
            secrets=secrets,
            shared=tuple(exchange.find_caches(options.cache_from, connections)),
            compile_jobs=order.compile_jobs,
            job=order.job,
        )
        with naming_causes(builder), _cleaning(builder):
            yield builder


@contextmanager
def _cleaning(builder: Builder) -> Iterator[None]:
    """Remove what killed programs left on this host if the build fails."""
    try:
        yield
    except BaseException:
        with suppress(LumicontainerError):
            builder.runtime.clean_host()
        raise


def _say_warnings(order: BuildOrder, place: Path, progress: Progress) -> None:
    on_shared = disk_space.shared_warning(place)
    for warning in (*order.warnings, *([on_shared] if on_shared else [])):
        progress.say(str(warning))
    for layer in order.plan.resolved.layers:
        if layer.omitted:
            progress.say(f"left out: {layer.name}: {layer.omitted}")


def _require_replaceable(order: BuildOrder) -> None:
    """Raise ``InputError`` if an existing image has what a new one would not have."""
    if not order.current:
        order.output.require_replaceable()


def _preview(order: BuildOrder, job: BuildJob | None) -> PlannedBuild:
    """Return what a build would do; raise an error for options with which no build begins."""
    words: Sequence[str] = ()
    if not order.current:
        read_secrets(order.options.secrets, order.plan)
        read_mirrors(order.options.mirrors)
        if runtime := order.options.runtime:
            runtimes.usable(runtime)
        words = sending.submitted(order.plan, job) if job else ()
    if order.current or order.options.rebuild:
        return PlannedBuild(order, {}, words)
    with Connections() as connections:
        shared = tuple(exchange.find_caches(order.options.cache_from, connections))
        for source in shared:
            source.require()
        stack = known_stack(order.plan, Cache(cache_root()), shared)
        warnings = (*order.warnings, *doubts(order.plan, stack, shared))
    taken = {each.key: each.publisher for each in stack if each.publisher}
    return PlannedBuild(replace(order, warnings=warnings), taken, words)


def _compile_layer(order: BuildOrder, layer: str, on_progress: OnProgress | None) -> CompiledLayer:
    with _open_builder(order, on_progress) as builder:
        complete(pipeline.compile_layer(builder, layer), builder.progress)
    return CompiledLayer(layer)


def _build_twice(order: BuildOrder, on_progress: OnProgress | None) -> Comparison:
    with _open_builder(order, on_progress) as builder:
        pipeline.require_space(builder, order.output.path)
        files = complete(reproducibility.check(builder), builder.progress)
    return Comparison(len(order.plan.steps) + 1, files)


def _make(order: BuildOrder, on_progress: OnProgress | None = None) -> BuiltImage:
    """Build what is ordered, unless it is current."""
    platform, output = order.plan.resolved.platform, order.output
    key = order.plan.steps[-1].key
    folders.reclaim(cache_root() / folders.FOLDERS)
    if order.current:
        image, sent = Image(output.path, platform), SentObjects()
        if order.options.cache_to:
            with progress_of(on_progress) as progress:
                sent = _send(order, Cache(cache_root()).open(), progress)
        return BuiltImage(image, output, key, current=True, sent=sent)
    _require_replaceable(order)
    with _open_builder(order, on_progress) as builder:
        output.build(builder, verify=order.options.verify)
        sent = _send(order, builder.cache, builder.progress)
        seconds = {name: round(each, 1) for name, each in builder.progress.times.items()}
        taken = {each.key: each.publisher for each in builder.proven.values() if each.publisher}
    image = Image(output.path, platform, seconds=seconds)
    return BuiltImage(image, output, key, current=False, sent=sent, taken=taken)


def _send(order: BuildOrder, store: Cache, progress: Progress) -> SentObjects:
    """Send the layers to a registry if that is asked for."""
    options = order.options
    if not options.cache_to:
        return SentObjects()
    words = (options.cache_to, options.cache_sign, progress)
    sent = exchange.send_layers(order.plan, store, *words)
    if sent.problem:
        progress.say(str(sent.problem))
    return sent
