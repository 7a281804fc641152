"""``lumicontainer top``: show what a running job does on its nodes."""

import argparse
import shutil
import sys
from collections.abc import Iterator

from lumicontainer.api import watching
from lumicontainer.api.watching import JobPicture
from lumicontainer.commands import context
from lumicontainer.system.terminal.output import columns, line, print_json, say, write
from lumicontainer.system.units import count

_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


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
    """Yield the lines that show a job, cut where a terminal would fold them."""
    width = columns()
    for text in map(line, picture.as_text()):
        yield f"{text[: width - 1]}…" if width and len(text) > width else text
