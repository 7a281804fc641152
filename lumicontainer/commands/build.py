"""``lumicontainer build``: from a recipe to an image that its checks hold for."""

from __future__ import annotations

import argparse
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
from lumicontainer.build.checks import script_syntax
from lumicontainer.build.secrets import read_secrets
from lumicontainer.build.workspace import workspace
from lumicontainer.commands import context, lock_option
from lumicontainer.core.plan.plan import Plan, planned
from lumicontainer.core.resolve.inputs import base_told, unpinned
from lumicontainer.core.rules.rules import refuse
from lumicontainer.engines import find_engine
from lumicontainer.errors import EXAMINED_FAILED, OK, InputError, Problem
from lumicontainer.host import site
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.image import digests, integrity, records, sif
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal.output import say, write_document
from lumicontainer.system.terminal.progress import FORMS, Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_recipe(parser)
    parser.add_argument(
        "--output", "-o", metavar="FILE", type=Path, help="the image; default: RECIPE.sif here"
    )
    parser.add_argument(
        "--jobs",
        "-j",
        metavar="N",
        type=context.number,
        help="compile jobs of a step; default: what the cores and the memory of this host allow",
    )
    parser.add_argument(
        "--pack",
        choices=pipeline.PACKS,
        help="layered: the layers as they are, fast to write; flat: one file system, for release "
        "and for every engine, and every check is run; default: layered where the engines read it",
    )
    parser.add_argument(
        "--progress", choices=FORMS, default="auto", help="how to tell of it; default: %(default)s"
    )
    parser.add_argument(
        "--secret",
        metavar="id=ID,src=FILE",
        action="append",
        default=[],
        help="a file for the layers that want it, while they are made; it is kept nowhere",
    )
    context.add_mirror(parser)
    parser.add_argument(
        "--locked",
        action="store_true",
        help="take nothing that is not in the lock, which lumicontainer lock writes",
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="run every step again, cached or not"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="build every step a second time and list the files that differ; no image is written",
    )
    parser.add_argument(
        "--no-verify",
        action="store_true",
        help="keep the image without making its checks; a build without this makes it again",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the steps, and do nothing")
    context.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Build the image, unless the one that is there was built from the same inputs."""
    resolved = context.resolved_recipe(arguments)
    script_syntax.refuse_unparsable(resolved)
    warnings = refuse(context.judged(resolved, arguments))
    resolved = lock_option.locked(resolved, arguments) if arguments.locked else resolved
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
    result = {"image": str(output), "key": wanted, "built": not current}
    if arguments.check:
        return _check(arguments, plan, output, warnings)
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
    """Tell whether the image that is there is whole, and what a build would make."""
    if not output.exists():
        return False
    try:
        # What an engine's user lays on top of an image is ext3, and none of its layers.
        own = [each for each in sif.partitions(output) if each.form == sif.SQUASHFS]
        form = "flat" if len(own) == 1 else "layered"
        checked = arguments.no_verify or records.checked(output)
        fits = records.key(output) == wanted and arguments.pack in (None, form)
        return checked and fits and _is_whole(output)
    except (InputError, ValueError):
        return False


def _is_whole(output: Path) -> bool:
    """Tell whether every byte of an image is as it was written; say where it is not."""
    found = proven.is_whole(output)
    if found.state == digests.WHOLE:
        return True
    hint = "nothing is to be done: this build replaces it"
    say(str(integrity.problem(output, found, level="warning")._replace(hint=hint)))
    return False


@contextmanager
def _builder(
    arguments: argparse.Namespace, plan: Plan, warnings: Sequence[Problem]
) -> Iterator[Builder]:
    """Give all that a build works with, once it is known that this host can build."""
    secrets = read_secrets(arguments.secret, plan)
    mirrors = read_mirrors(arguments.mirror)
    engine = find_engine()
    store = Cache(cache_root()).open()
    pipeline.check_host(plan)
    # Steps need it, and the layers that are there are proven meanwhile.
    bootstrap = plan.bootstrap
    release = bootstrap.release if bootstrap.agent == "debootstrap" else ""
    reading = ThreadPoolExecutor(1).submit(site.read_site, release, mirrors)
    place_of = plan.resolved.recipe.name
    with Progress(arguments.progress) as progress, workspace(place_of) as place:
        for warning in warnings:
            progress.say(str(warning))
        for layer in plan.resolved.layers:
            if layer.omitted:
                progress.say(f"left out: {layer.name}: {layer.omitted}")
        yield Builder(
            plan,
            engine,
            reading.result,
            progress,
            store,
            place,
            jobs=arguments.jobs or pipeline.default_jobs(),
            fresh=arguments.rebuild,
            secrets=secrets,
        )


def _build(
    arguments: argparse.Namespace, plan: Plan, output: Path, warnings: Sequence[Problem]
) -> dict[str, float]:
    import asyncio  # noqa: PLC0415 - 40 ms, and only builds need it

    begun, limit = time.monotonic(), size_limit()
    form = pipeline.choose_pack(arguments.pack, find_engine(), plan.resolved.platform)
    with _builder(arguments, plan, warnings) as builder:
        stack = asyncio.run(
            pipeline.build(builder, output, form=form, verify=not arguments.no_verify)
        )
        usage.note(builder.cache, output, stack)
        builder.cache.prune(limit, keep={entry.name for entry in stack})
        times = builder.progress.times
        told = f"{output.stat().st_size / 1e6:.0f} MB in {time.monotonic() - begun:.0f} s"
        builder.progress.say(f"{output.name}: {told}")
    return {name: round(seconds, 1) for name, seconds in times.items()}


def _check(
    arguments: argparse.Namespace, plan: Plan, output: Path, warnings: Sequence[Problem]
) -> int:
    """Build every step a second time, and print what differs from the first."""
    import asyncio  # noqa: PLC0415

    from lumicontainer.build.checks import reproducibility  # noqa: PLC0415 - seldom wanted

    with _builder(arguments, plan, warnings) as builder:
        pipeline.require_room(builder, output, form="layered")
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
        context.print_json(
            {"image": str(output), "up_to_date": current, "base_key": plan.base_key, "steps": steps}
        )
        return
    state = "up to date, would not build" if current else "would build"
    sys.stdout.write(f"{state}: {output}\n")
    open_inputs = {each.name: unpinned(plan.resolved, each) for each in plan.resolved.included()}
    told = base_told(plan.bootstrap)
    named = open_inputs[plan.resolved.layers[0].name]
    rows = [("base", plan.base_key[:12], f"{told}  not pinned" if told in named else told)]
    for step in plan.steps:
        marks = len(open_inputs.get(step.name, ()))
        rows.append((step.name, step.key[:12], f"{marks} inputs not pinned" if marks else ""))
    context.print_table(rows)
