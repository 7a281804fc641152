"""``lumicontainer job``: write a batch script that runs a command in an image on each rank."""

import argparse
import re

from lumicontainer.commands import context
from lumicontainer.commands.binds import bind_value, read_needs
from lumicontainer.commands.run import command_of
from lumicontainer.core.model import Platform
from lumicontainer.core.render.jinja import fill
from lumicontainer.engines import find_engine
from lumicontainer.errors import OK
from lumicontainer.image import sif
from lumicontainer.jobs.follow import Asked
from lumicontainer.system.terminal.output import write_document
from lumicontainer.verify import job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with")
    add = parser.add_argument
    add("--nodes", metavar="N", type=context.number, default=1, help="default: %(default)s")
    summary = "the ranks of a node; default: one for each GPU of the platform, two without GPUs"
    add("--ntasks-per-node", metavar="N", type=context.number, help=summary)
    add("--time", metavar="TIME", type=context.time_limit, help="the time limit, such as 2h")
    add("--partition", metavar="NAME", type=context.slurm_name, help="the partition of the nodes")
    add("--account", metavar="NAME", type=context.slurm_name, help="the project that pays")
    add("command", metavar="-- COMMAND", nargs=argparse.REMAINDER)


def run(arguments: argparse.Namespace) -> int:
    """Print the script, which needs no lumicontainer on the nodes."""
    sif.read_objects(arguments.image)
    command, platform = command_of(arguments), context.find_platform(arguments)
    image = arguments.image.absolute()
    start = [platform.engine, "exec", str(image), *command]
    if not platform.engine:
        start = find_engine().execute(image, command, binds=())
    needs = read_needs(arguments, platform, static=True)
    text = fill(
        "srun.sh.j2",
        options=_options(arguments, platform),
        binds=bind_value(needs),
        exports=needs.exports,
        command=start,
    )
    write_document(text)
    return OK


def _options(arguments: argparse.Namespace, platform: Platform) -> list[str]:
    """Return the options of sbatch: all of each node, if it has GPUs."""
    asked = Asked(arguments.partition, arguments.account, arguments.time)
    tasks = arguments.ntasks_per_node or job.tasks(platform)
    name = re.sub(r"[^\w.-]", "_", arguments.image.stem)
    options = [f"--job-name={name}", *asked.options(), f"--nodes={arguments.nodes}"]
    options += [f"--ntasks-per-node={tasks}"]
    if platform.gpus:
        options += [f"--gpus-per-node={len(platform.gpus)}", "--exclusive", "--mem=0"]
    return options
