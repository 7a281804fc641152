"""``lumicontainer build``: from a recipe to an image that its checks hold for."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lumicontainer import build, image, site
from lumicontainer.commands import common
from lumicontainer.engines import find_engine
from lumicontainer.errors import OK
from lumicontainer.plan import Plan
from lumicontainer.progress import Progress, say
from lumicontainer.resolve import unpinned


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
        default=os.cpu_count() or 1,
        help="compile jobs; default: the cores of this host",
    )
    parser.add_argument("--rebuild", action="store_true", help="build although nothing changed")
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
        result["seconds"] = _build(plan, output, jobs=arguments.jobs)
    if arguments.json:
        common.print_json(result)
    else:
        sys.stdout.write(f"{output}\n")
    return OK


def _build(plan: Plan, output: Path, *, jobs: int) -> dict[str, float]:
    for layer in plan.resolved.layers:
        if layer.omitted:
            say(f"left out: {layer.name}: {layer.omitted}")
    engine = find_engine()
    build.check_host(output)
    progress = Progress(total=len(plan.steps) + 4)
    builder = build.Builder(plan, engine, site.read_site(plan.bootstrap.release), progress, jobs)
    build.build(builder, output)
    total = sum(progress.times.values())
    say(f"{output.name}: {output.stat().st_size / 1e6:.0f} MB in {total:.0f} s")
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
