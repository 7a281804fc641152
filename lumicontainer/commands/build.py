"""``lumicontainer build``: build an image from a recipe, and run its checks."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lumicontainer.build import pipeline
from lumicontainer.build.builder import Builder
from lumicontainer.build.cache import proven, usage
from lumicontainer.build.cache.store import Cache, size_limit
from lumicontainer.build.checks import reproducibility, script_syntax
from lumicontainer.build.secrets import read_secrets
from lumicontainer.build.workspace import workspace
from lumicontainer.commands import context
from lumicontainer.core.plan.plan import Plan, planned
from lumicontainer.core.resolve.inputs import base_label, unpinned
from lumicontainer.core.rules.rules import refuse
from lumicontainer.engines import find_engine
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, Problem
from lumicontainer.host import site
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.image import digests, integrity, records, sif
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal.output import say, write_document
from lumicontainer.system.terminal.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.RECIPE)
    add = parser.add_argument
    summary = "the file of the image; default: ./RECIPE.sif"
    add("--output", "-o", metavar="FILE", type=Path, help=summary)
    summary = "compile jobs of a step; default: as many as the cores and the memory allow"
    add("--jobs", "-j", metavar="N", type=context.number, help=summary)
    add(
        "--pack",
        choices=pipeline.PACKS,
        help="layered: the cached layers as they are, fast to write; flat: one file system, for "
        "releases and all engines, after all checks; default: layered if the engines read it",
    )
    add(
        "--secret",
        metavar="id=ID,src=FILE",
        action="append",
        default=[],
        help="a file that the scripts of layers can read during the build; it is not stored",
    )
    for option, summary in (
        ("--locked", "use the pins of the lock only, see lumicontainer lock"),
        ("--rebuild", "run every step again, cached or not"),
        ("--check", "build every step twice and list the files that differ; write no image"),
        ("--no-verify", "keep the image without running its checks; the next build repeats it"),
        ("--dry-run", "print the steps, and do nothing"),
    ):
        add(option, action="store_true", help=summary)
    context.add_options(parser, "--mirror", "--progress", "--json")


def run(arguments: argparse.Namespace) -> int:
    """Build the image, unless the existing one was built from the same inputs."""
    resolved = context.resolved_recipe(arguments)
    script_syntax.refuse_unparsable(resolved)
    warnings = refuse(context.judged(resolved, arguments))
    resolved = context.locked(resolved, arguments) if arguments.locked else resolved
    plan = planned(resolved)
    output = Path(arguments.output or f"{plan.resolved.recipe.name}.sif").absolute()
    pipeline.check_output(output)
    wanted = plan.steps[-1].key
    current = not arguments.rebuild and _is_current(arguments, output, wanted)
    if output.exists() and not (current or arguments.check):
        pipeline.check_replaced(output)
    if arguments.dry_run:
        for warning in warnings:
            say(str(warning))
        _print_steps(plan, output, current=current, as_json=arguments.json)
        return OK
    if arguments.check:
        return _check(arguments, plan, output, warnings)
    result = {"image": str(output), "key": wanted, "built": not current}
    if current:
        say(f"{output.name} is up to date")
    else:
        result["seconds"] = _build(arguments, plan, output, warnings)
    if arguments.json:
        context.print_json(result)
    else:
        write_document(f"{output}\n")
    return OK


def _is_current(arguments: argparse.Namespace, output: Path, wanted: str) -> bool:
    """Check that the existing image is whole, and is what a build would make."""
    if not output.exists():
        return False
    try:
        # A writable overlay that a user added to an image is ext3, not a layer.
        own = [each for each in sif.partitions(output) if each.form == sif.SQUASHFS]
        form = "flat" if len(own) == 1 else "layered"
        checked = arguments.no_verify or records.checked(output)
        fits = records.key(output) == wanted and arguments.pack in (None, form)
        return checked and fits and _is_whole(output)
    except (InputError, ValueError):
        return False


def _is_whole(output: Path) -> bool:
    """Check that every byte of an image is as it was written; warn if not."""
    found = proven.is_whole(output)
    if found.state == digests.WHOLE:
        return True
    hint = "do nothing: this build replaces it"
    say(str(integrity.problem(output, found, level="warning")._replace(hint=hint)))
    return False


@contextmanager
def _builder(
    arguments: argparse.Namespace, plan: Plan, warnings: Sequence[Problem]
) -> Iterator[Builder]:
    """Return what a build works with, if this host can build."""
    secrets = read_secrets(arguments.secret, plan)
    mirrors = read_mirrors(arguments.mirror)
    engine = find_engine()
    store = Cache(cache_root()).open()
    pipeline.check_host(plan)
    # Only steps require it; meanwhile the cached layers are checked.
    bootstrap = plan.bootstrap
    release = bootstrap.release if bootstrap.agent == "debootstrap" else ""
    reading = ThreadPoolExecutor(1).submit(site.read_site, release, mirrors)
    recipe = plan.resolved.recipe.name
    with Progress(arguments.progress) as progress, workspace(recipe) as place:
        for warning in warnings:
            progress.say(str(warning))
        for layer in plan.resolved.layers:
            if layer.omitted:
                progress.say(f"left out: {layer.name}: {layer.omitted}")
        jobs = arguments.jobs or pipeline.default_jobs()
        fresh = arguments.rebuild
        yield Builder(
            plan, engine, reading.result, progress, store, place, jobs, fresh=fresh, secrets=secrets
        )


def _build(
    arguments: argparse.Namespace, plan: Plan, output: Path, warnings: Sequence[Problem]
) -> dict[str, float]:
    begun, limit = time.monotonic(), size_limit()
    form = pipeline.choose_pack(arguments.pack, find_engine(), plan.resolved.platform)
    with _builder(arguments, plan, warnings) as builder:
        making = pipeline.build(builder, output, form=form, verify=not arguments.no_verify)
        stack = asyncio.run(making)
        usage.note(builder.cache, output, stack)
        builder.cache.prune(limit, keep={entry.name for entry in stack})
        size = f"{output.stat().st_size / 1e6:.0f} MB"
        builder.progress.say(f"{output.name}: {size} in {time.monotonic() - begun:.0f} s")
        times = builder.progress.times
    return {name: round(seconds, 1) for name, seconds in times.items()}


def _check(
    arguments: argparse.Namespace, plan: Plan, output: Path, warnings: Sequence[Problem]
) -> int:
    with _builder(arguments, plan, warnings) as builder:
        pipeline.require_space(builder, output, form="layered")
        found = asyncio.run(reproducibility.check(builder))
    if arguments.json:
        context.print_json([each.record() for each in found])
    elif found:
        context.print_table([(e.step, e.path, e.what, e.reason or "not explained") for e in found])
    else:
        sys.stdout.write(f"{len(plan.steps) + 1} layers, the same twice, byte for byte\n")
    return EXAMINED_FAILED if any(not each.reason for each in found) else OK


def _print_steps(plan: Plan, output: Path, *, current: bool, as_json: bool) -> None:
    if as_json:
        steps = [{"name": step.name, "key": step.key} for step in plan.steps]
        head = {"image": str(output), "up_to_date": current, "base_key": plan.base_key}
        context.print_json({**head, "steps": steps})
        return
    state = "up to date, would not build" if current else "would build"
    sys.stdout.write(f"{state}: {output}\n")
    layers = plan.resolved.included()
    open_inputs = {each.name: unpinned(plan.resolved, each) for each in layers}
    base = base_label(plan.bootstrap)
    pinned = base not in open_inputs[plan.resolved.layers[0].name]
    rows = [("base", plan.base_key[:12], base if pinned else f"{base}  not pinned")]
    for step in plan.steps:
        marks = len(open_inputs.get(step.name, ()))
        rows.append((step.name, step.key[:12], f"{marks} inputs not pinned" if marks else ""))
    context.print_table(rows)
