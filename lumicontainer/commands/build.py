"""``lumicontainer build``: from a recipe to an image that its checks hold for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lumicontainer import build, image, layers, site
from lumicontainer.cache import Cache, cache_root, size_limit
from lumicontainer.commands import common
from lumicontainer.engines import find_engine
from lumicontainer.errors import OK
from lumicontainer.plan import Plan
from lumicontainer.progress import FORMS, Progress, say
from lumicontainer.resolve import unpinned
from lumicontainer.workspace import workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    common.add_recipe(parser)
    parser.add_argument(
        "--output", "-o", metavar="FILE", type=Path, help="the image; default: RECIPE.sif here"
    )
    parser.add_argument(
        "--jobs",
        "-j",
        metavar="N",
        type=_jobs,
        help="compile jobs of a step; default: what the cores and the memory of this host allow",
    )
    parser.add_argument(
        "--pack",
        choices=build.PACKS,
        help="layered: the layers as they are, fast to write; flat: one file system, for release "
        "and for every engine, and every check is run; default: layered where the engines read it",
    )
    parser.add_argument(
        "--progress", choices=FORMS, default="auto", help="how to tell of it; default: %(default)s"
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="run every step again, cached or not"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the steps, and do nothing")
    common.add_json(parser)


def _jobs(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one job is needed")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Build the image, unless the one that is there was built from the same inputs."""
    plan = common.planned(common.resolved_recipe(arguments))
    output = Path(arguments.output or f"{plan.resolved.recipe.name}.sif").absolute()
    build.check_output(output)
    wanted = plan.steps[-1].key
    current = not arguments.rebuild and output.exists() and image.key(output) == wanted
    if arguments.dry_run:
        _print_steps(plan, output, current=current, as_json=arguments.json)
        return OK
    result = {"image": str(output), "key": wanted, "built": not current}
    if current:
        say(f"{output.name} is up to date")
    else:
        result["seconds"] = _build(arguments, plan, output)
    if arguments.json:
        common.print_json(result)
    else:
        sys.stdout.write(f"{output}\n")
    return OK


def _build(arguments: argparse.Namespace, plan: Plan, output: Path) -> dict[str, float]:
    import asyncio  # noqa: PLC0415 - 40 ms, and only builds need it

    engine = find_engine()
    store = Cache(cache_root()).open()
    form = build.choose_pack(arguments.pack, engine, plan.resolved.platform)
    build.check_host(output, store)
    with Progress(arguments.progress) as progress:
        for layer in plan.resolved.layers:
            if layer.omitted:
                progress.say(f"left out: {layer.name}: {layer.omitted}")
        with workspace(plan.resolved.recipe.name) as place:
            builder = layers.Builder(
                plan,
                engine,
                site.read_site(plan.bootstrap.release),
                progress,
                store,
                place,
                jobs=arguments.jobs or build.default_jobs(),
                fresh=arguments.rebuild,
            )
            stack = asyncio.run(build.build(builder, output, form=form))
        store.prune(size_limit(), keep={entry.name for entry in stack})
        total = sum(progress.times.values())
        progress.say(f"{output.name}: {output.stat().st_size / 1e6:.0f} MB in {total:.0f} s")
    return {name: round(seconds, 1) for name, seconds in progress.times.items()}


def _print_steps(plan: Plan, output: Path, *, current: bool, as_json: bool) -> None:
    if as_json:
        steps = [{"name": step.name, "key": step.key} for step in plan.steps]
        common.print_json(
            {"image": str(output), "up_to_date": current, "base_key": plan.base_key, "steps": steps}
        )
        return
    bootstrap = plan.bootstrap
    state = "up to date, would not build" if current else "would build"
    sys.stdout.write(f"{state}: {output}\n")
    rows = [("base", plan.base_key[:12], f"{bootstrap.agent} {bootstrap.release}")]
    open_inputs = {layer.name: unpinned(layer) for layer in plan.resolved.included()}
    for step in plan.steps:
        marks = len(open_inputs.get(step.name, ()))
        rows.append((step.name, step.key[:12], f"{marks} inputs not pinned" if marks else ""))
    common.print_table(rows)
