"""``lumi-entry``: tell the program what its launcher says, in PyTorch's words, and become it."""

from __future__ import annotations

import os
import sys

from .. import __version__
from ..errors import UNFIT, LaunchError
from ..launch.launchers import first_of_node, speaks
from ..launch.program import become, check_readable, inherited, interpreter, restore_signals
from ..rank import affinity
from ..rank.node_launcher import DIRECT, STARTED, command, local_rank_argument
from ..rank.options import Options, described, misused, take
from . import around
from .decide import decide, without_own, without_ranks
from .quickjson import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..rank.context import Context

_HELP = """\
Usage: lumi-entry [OPTION]... SCRIPT.py [ARGUMENT]...
       lumi-entry [OPTION]... -m MODULE [ARGUMENT]...
       lumi-entry [OPTION]... -- COMMAND [ARGUMENT]...

Run one rank of a program: set what PyTorch expects (RANK, LOCAL_RANK, WORLD_SIZE,
LOCAL_WORLD_SIZE, NODE_RANK, GROUP_RANK, MASTER_ADDR, MASTER_PORT, OMP_NUM_THREADS) from what
srun, mpiexec or mpirun says, then become the program. Under torchrun nothing is touched; without
a launcher it is one process. One task a node with several GPUs becomes a rank for each of them,
by torchrun, which starts lumi-entry for every rank. MASTER_ADDR, MASTER_PORT and OMP_NUM_THREADS
stay as they are where they are set. On a platform that tells which cores are next to which GPU, a
rank that is not on those of its own (that of its LOCAL_RANK) is bound to them.

{options}
  srun -N2 --ntasks-per-node=8 --gpus-per-node=8 singularity exec IMAGE lumi-entry train.py
  srun -N2 --ntasks-per-node=1 --gpus-per-node=8 singularity exec IMAGE lumi-entry train.py

Exit codes: the program's own; before it starts 2 the input is wrong, 3 the node is not fit, 126 the
command cannot be run, 127 it is not found, 70 a bug of ours.
"""


class Order:
    """Hold what the command line asks for: a text, the variables, or a command to become."""

    __slots__ = ("command", "options", "program", "script", "text")

    def __init__(self) -> None:
        self.command: list[str] = []
        self.program: list[str] = []
        self.script = ""
        self.options = Options()
        self.text = ""


PREPARATIONS: tuple[Callable[[Context], None], ...] = (
    around.check_node,
    around.show_gpus,
    affinity.bind,
    around.make_caches,
    around.make_recorder,
    lambda context: _tell(context.notes),
    around.redirect,
)
"""What is done, in order, before the program starts."""
WRAPPERS: tuple[Callable[[Context, list[str]], list[str]], ...] = (
    local_rank_argument,
    around.profiled,
)
"""What changes the command, in order: the last one's is the outermost."""


def main(arguments: Sequence[str]) -> int:
    """Run lumi-entry; return an exit code where it did not become the program."""
    restore_signals()
    env = inherited()
    try:
        return _run(arguments, env)
    except LaunchError as error:
        if speaks(env) if error.told is None else error.told:
            sys.stderr.write(f"{error}\n")
        elif error.alone or (error.local and first_of_node(env)):
            sys.stderr.write(f"error: {error.what} (on {os.uname().nodename})\n")
        return error.code
    except Exception:  # noqa: BLE001 - what is left is a fault of lumi-entry
        if first_of_node(env):
            import traceback  # noqa: PLC0415 - slow to import, and hopefully never needed

            traceback.print_exc()
            sys.stderr.write("error: this is a fault of lumi-entry itself\n")
        return 70


def parse(arguments: Sequence[str]) -> Order:
    """Read the command line; raise LaunchError where it cannot be understood."""
    order = Order()
    # What `singularity run` and `docker run` start is lumi-entry already.
    words = list(arguments[1:] if arguments[:1] == ["lumi-entry"] else arguments)
    given: dict[str, str | bool] = {}
    while words and not order.command:
        order.program = words[:]
        if words[0] in _TEXTS:
            order.text = _TEXTS[words.pop(0)]()
        elif words[0] == "--":
            order.command = words[1:]
            break
        elif words[0] == "-m":
            order.command = [interpreter(), *words] if words[1:] else []
            break
        elif words[0].startswith("-"):
            field, value = take(words)
            given[field] = value
        else:
            order.script = words[0]
            order.command = [interpreter(), *words]
    order.options = Options(**given)
    if order.options.json and not order.options.print_env:
        raise misused("--json goes with --print-env")
    if not (order.command or order.options.print_env or order.text):
        raise misused("no program was given")
    return order


_TEXTS: dict[str, Callable[[], str]] = {
    "-h": lambda: _HELP.format(options=described()),
    "--help": lambda: _HELP.format(options=described()),
    "--version": lambda: f"lumi-entry {__version__}\n",
}


def _run(arguments: Sequence[str], env: dict[str, str]) -> int:
    order = parse(arguments)
    if order.text:
        _print(order.text)
        return 0
    env = without_own(env)
    decision = decide(env, platform=read_platform(), options=order.options, program=order.program)
    if decision.warned():
        sys.stderr.writelines(f"warning: {text}\n" for text in decision.warnings)
    if order.options.print_env:
        from . import report  # noqa: PLC0415 - no rank that starts a program needs it

        _print(report.as_json(decision) if order.options.json else report.as_text(decision))
        _tell(decision.context.notes)
        return 0
    if order.script:
        check_readable(order.script)
    env = {**env, **decision.changes()}
    context = decision.context
    if context.start.launcher != DIRECT:
        started = {STARTED: context.start.launcher}
        become(command(decision, arguments), {**without_ranks(env), **started})
    env.pop(STARTED, None)
    for prepare in PREPARATIONS:
        prepare(context)
    words = order.command
    for wrap in WRAPPERS:
        words = wrap(context, words)
    become(words, env)
    return 0


def read_platform() -> dict[str, Any]:
    """Return what the image's platform says; nothing where the image has no such record."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    home = os.path.dirname(os.path.dirname(package))
    try:
        with open(os.path.join(home, "platform.json"), encoding="utf-8") as stream:
            text = stream.read()
    except OSError:
        return {}
    record: dict[str, Any] = loads(text)
    return record


def _tell(notes: list[str]) -> None:
    # At once, so that the lines of many ranks do not run into each other.
    sys.stderr.write("".join(f"{text}\n" for text in notes))


def _print(text: str) -> None:
    # A value may hold bytes that are no UTF-8; they leave as they came.
    left = text.encode("utf-8", "surrogateescape")
    try:
        while left:
            left = left[os.write(1, left) :]
    except OSError as error:
        raise LaunchError(
            f"cannot write to stdout: {error.strerror}",
            where=f"stdout of the process on {os.uname().nodename}",
            why="what was asked for goes there",
            hint="leave stdout open, and lead it to where there is room",
            code=UNFIT,
            told=True,
        ) from None
