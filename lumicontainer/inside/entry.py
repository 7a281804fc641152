"""``lumi-entry``: tell the program what its launcher says, in PyTorch's words, and become it."""

from __future__ import annotations

import os
import sys

from . import __version__
from .decide import decide, without_own
from .errors import LaunchError
from .launchers import speaks
from .program import become, check_readable, inherited, interpreter, restore_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HELP = """\
Usage: lumi-entry [OPTION]... SCRIPT.py [ARGUMENT]...
       lumi-entry [OPTION]... -m MODULE [ARGUMENT]...
       lumi-entry [OPTION]... -- COMMAND [ARGUMENT]...

Run one rank of a program: set what PyTorch expects (RANK, LOCAL_RANK, WORLD_SIZE,
LOCAL_WORLD_SIZE, NODE_RANK, GROUP_RANK, MASTER_ADDR, MASTER_PORT, OMP_NUM_THREADS) from what
srun, mpiexec or mpirun says, then become the program. Under torchrun nothing is touched; without
a launcher it is one process. MASTER_ADDR, MASTER_PORT and OMP_NUM_THREADS stay as they are
where they are set.

  --print-env  print each variable, its value, who says so and why; start nothing
  --json       the same as one line of JSON
  --version    print the version
  -h, --help   print this

  srun -N2 -n16 singularity exec IMAGE lumi-entry train.py --epochs 3
"""


class Order:
    """Hold what the command line asks for: a text, the variables, or a command to become."""

    __slots__ = ("command", "json", "script", "show", "text")

    def __init__(self) -> None:
        self.command: list[str] = []
        self.script = ""
        self.show = False
        self.json = False
        self.text = ""


def main(arguments: Sequence[str]) -> int:
    """Run lumi-entry; return an exit code where it did not become the program."""
    restore_signals()
    env = inherited()
    try:
        return _run(arguments, env)
    except LaunchError as error:
        sys.stderr.write(f"{error}\n" if speaks(env) else _brief(error))
        return error.code
    except Exception:  # noqa: BLE001 - what is left is a fault of lumi-entry
        import traceback  # noqa: PLC0415 - slow to import, and hopefully never needed

        traceback.print_exc()
        sys.stderr.write("error: this is a fault of lumi-entry itself\n")
        return 70


def _brief(error: LaunchError) -> str:
    """Return one line: an error may be this node's alone, and is then told nowhere else."""
    return f"error: {error.what} (on {os.uname().nodename}; not rank 0, which tells more)\n"


def parse(arguments: Sequence[str]) -> Order:
    """Read the command line; raise LaunchError where it cannot be understood."""
    order = Order()
    words = list(arguments)
    while words and not order.command:
        word = words.pop(0)
        if word in _FLAGS:
            setattr(order, *_FLAGS[word])
        elif word == "--":
            order.command = words
            break
        elif word == "-m":
            order.command = [interpreter(), "-m", *words] if words else []
            break
        elif word.startswith("-"):
            raise _misused(f"unknown option '{word}'")
        else:
            order.script = word
            order.command = [interpreter(), word, *words]
    if order.json and not order.show:
        raise _misused("--json goes with --print-env")
    if not (order.command or order.show or order.text):
        raise _misused("no program was given")
    return order


_FLAGS: dict[str, tuple[str, str | bool]] = {
    "-h": ("text", HELP),
    "--help": ("text", HELP),
    "--version": ("text", f"lumi-entry {__version__}\n"),
    "--print-env": ("show", True),
    "--json": ("json", True),
}


def _misused(what: str) -> LaunchError:
    return LaunchError(
        what,
        where="the command line of lumi-entry",
        why="it is: lumi-entry [OPTION]... SCRIPT.py, -m MODULE or -- COMMAND, and its arguments",
        mend="lumi-entry --help tells more; Python's own options: lumi-entry -- python3 -u X.py",
    )


def _run(arguments: Sequence[str], env: dict[str, str]) -> int:
    order = parse(arguments)
    if order.text:
        _print(order.text)
        return 0
    env = without_own(env)
    decision = decide(env)
    if decision.warned():
        sys.stderr.writelines(f"warning: {text}\n" for text in decision.warnings)
    if order.show:
        from . import report  # noqa: PLC0415 - no rank that starts a program needs it

        _print(report.as_json(decision) if order.json else report.as_text(decision))
        return 0
    if order.script:
        check_readable(order.script)
    become(order.command, {**env, **decision.changes()})
    return 0


def _print(text: str) -> None:
    # A value may hold bytes that are no UTF-8; they leave as they came.
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
