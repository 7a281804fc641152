"""``lumicontainer top``: show what a running job does on its nodes."""

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from lumicontainer.api import watching
from lumicontainer.api.watching import JobPicture
from lumicontainer.commands import context
from lumicontainer.jobs.postmortem.ranks import listed
from lumicontainer.jobs.watch.nodes import GpuState, NodeState
from lumicontainer.system.terminal.output import columns, line, print_json, say, write
from lumicontainer.system.units import count

_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_STATES = {
    "R": "running",
    "S": "waiting",
    "D": "waiting for a device or a file system",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended",
    "X": "ended",
    "I": "idle",
}
"""The states of processes, as ps(1) prints them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("job", metavar="JOB", help="the number of a running Slurm job")
    parser.add_argument("--once", action="store_true", help="print it once, and end")
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> None:
    """Show GPUs, memory, ranks and the last line of the log of every node."""
    if arguments.json:
        print_json(watching.look_at_job(arguments.job).as_data())
        return
    if arguments.once:
        _print("\n".join(_lines(watching.look_at_job(arguments.job))))
        return
    for picture in watching.watch_job(arguments.job, say):
        if sys.stdout.isatty():
            _draw(picture)
        elif len(picture.nodes) == picture.expected:
            _print("\n".join(_lines(picture)))
    say(f"job {arguments.job} is over")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _draw(picture: JobPicture) -> None:
    """Redraw the terminal, as much as it shows."""
    width, height = shutil.get_terminal_size()
    rows = [*_lines(picture)]
    if len(rows) >= height:
        hidden = len(rows) - height + 2
        rows = [*rows[: height - 2], f"… {count(hidden, 'line')} more; --once prints all"]
    drawn = "".join(f"{row[: width - 1]}{_CLEAR_LINE}\n" for row in rows)
    write(sys.stdout, f"{_HOME}{drawn}{_CLEAR_BELOW}", raw=True)
    sys.stdout.flush()


def _lines(picture: JobPicture) -> Iterator[str]:
    """Yield the lines that show a job; text of programs has no control characters in them."""
    nodes = f"{len(picture.nodes)} of {count(picture.expected, 'node')}"
    yield _fitted(
        f"job {picture.job} {line(picture.name)}: "
        f"{picture.running} of {picture.limit}, {nodes} answered"
    )
    for node in picture.nodes.values():
        yield from map(_fitted, _node_lines(node))
    if picture.line:
        yield _fitted(f"log: {line(picture.line)}")


def _fitted(text: str) -> str:
    """Cut a line that a terminal would fold."""
    width = columns()
    return f"{text[: width - 1]}…" if width and len(text) > width else text


def _node_lines(node: NodeState) -> Iterator[str]:
    yield f"{line(node.name)}: {_ranks(node)}; {_memory(node)}"
    yield f"  GPUs: {_gpus(node.gpus)}"
    if node.log:
        yield f"  {line(node.log)}: {line(node.line)}"


def _ranks(node: NodeState) -> str:
    if not node.ranks:
        return "no ranks"
    states = Counter(_STATES.get(each.state, each.state) for each in node.ranks)
    counted = ", ".join(f"{number} {state}" for state, number in states.most_common())
    noun = "rank" if len(node.ranks) == 1 else "ranks"
    return f"{noun} {listed([each.rank for each in node.ranks])}: {counted}"


def _memory(node: NodeState) -> str:
    if node.used is None:
        of_ranks = _gib(sum(each.memory for each in node.ranks))
        return f"memory {of_ranks} GiB, of the node's {_gib(node.total)} GiB {_free(node)} free"
    most = node.total if node.limit is None else node.limit
    return f"memory {_gib(node.used)} of {_gib(most)} GiB"


def _free(node: NodeState) -> str:
    return _gib(node.available)


def _gpus(gpus: Sequence[GpuState]) -> str:
    if not gpus:
        return "the driver of AMD shows none on this node"
    busy = " ".join("-" if each.busy is None else str(each.busy) for each in gpus)
    memory = " ".join(_gib(each.memory) for each in gpus)
    return f"busy {busy} %; memory {memory} of {_gib(max(each.total for each in gpus))} GiB"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
