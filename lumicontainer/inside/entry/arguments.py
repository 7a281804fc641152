"""Read the command line of lumi-entry."""

import argparse
import difflib
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from .. import __version__
from ..environment import is_number
from ..errors import misused
from ..launch.program import interpreter
from ..rank.context import AUTO, LAUNCHERS, PROFILERS, VISIBILITIES, Options
from .habits import option_hint

_USAGE = """\
lumi-entry [OPTION]... SCRIPT.py [ARGUMENT]...
       lumi-entry [OPTION]... -m MODULE [ARGUMENT]...
       lumi-entry [OPTION]... -- COMMAND [ARGUMENT]..."""
_ABOUT = """\
Run one rank of a program. lumi-entry sets what PyTorch expects (RANK, LOCAL_RANK, WORLD_SIZE,
LOCAL_WORLD_SIZE, NODE_RANK, GROUP_RANK, MASTER_ADDR, MASTER_PORT, OMP_NUM_THREADS) from the
variables of srun, mpiexec or mpirun. Then the program replaces it. Under torchrun it changes
nothing. Without a launcher the program is one process. If Slurm starts one task a node with
several GPUs, torchrun starts a rank for each GPU, and each rank runs lumi-entry. MASTER_ADDR,
MASTER_PORT and OMP_NUM_THREADS stay as you set them. If the platform lists the cores next to each
GPU, lumi-entry binds each rank to the cores of its GPU (number LOCAL_RANK)."""
_END = """\
  srun -N2 --ntasks-per-node=8 --gpus-per-node=8 singularity exec IMAGE lumi-entry train.py
  srun -N2 --ntasks-per-node=1 --gpus-per-node=8 singularity exec IMAGE lumi-entry train.py

Exit codes: the program's own. Before it starts: 2 invalid input, 3 the node is not fit, 126 the
command cannot be run, 127 command not found, 70 a bug of lumi-entry."""
_WITH_VALUE = {
    f"--{name.replace('_', '-')}"
    for name, default in Options()._asdict().items()
    if not isinstance(default, bool)
}


class Arguments(NamedTuple):
    """A command line: the options, the program's words, and the command to become.

    ``text`` is to be printed instead: the help, or the version.
    """

    options: Options = Options()
    program: Sequence[str] = ()
    command: Sequence[str] = ()
    script: str = ""
    text: str = ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise misused(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        usage=_USAGE,
        description=_ABOUT,
        epilog=_END,
        allow_abbrev=False,
        add_help=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=26, width=100
        ),
    )
    add = parser.add_argument
    add(
        "--launcher",
        choices=LAUNCHERS,
        default=AUTO,
        help="who starts the ranks. direct: srun or mpiexec, one rank a task. torchrun, "
        "accelerate, deepspeed (adds --local_rank to a script): that launcher, all ranks of a "
        "node in one task. auto: torchrun for a script or module if Slurm gave one task a node "
        "several GPUs, else direct",
    )
    add("--nproc", type=_processes, default=0, metavar="N", help="ranks a node that it starts")
    add("--launcher-args", default="", metavar="'WORDS'", help="options for the launcher")
    add("--print-env", action="store_true", help="print each variable and why; start nothing")
    add("--json", action="store_true", help="with --print-env: print one line of JSON")
    summary = "show a rank only its own GPU, to HIP or to ROCr; none: all GPUs (the default)"
    add("--gpu-visibility", choices=VISIBILITIES, default="none", help=summary)
    add("--allow-gpu-sharing", action="store_true", help="permit several ranks on one GPU")
    add("--no-bind", action="store_true", help="do not bind ranks to cores")
    add("--affinity-report", action="store_true", help="print GPU, cores and interface of ranks")
    add("--log-dir", default="", metavar="DIR", help="write stdout and stderr of each rank there")
    add("--profile", default="", metavar="RANKS", help="profile these ranks: 0,8-15 or all")
    add("--profiler", choices=PROFILERS, default="", help="the profiler (default: rocprofv3)")
    add("--smi", action="store_true", help="print the state of each node's GPUs first")
    add("--preflight", action="store_true", help="check each node first; exit with 3 if it fails")
    add("--remove-caches", action="store_true", help="remove the node's caches after its last rank")
    add("--version", action="store_true", help="print the version")
    add("-h", "--help", action="store_true", help="print this")
    return parser


def parse(words: Sequence[str]) -> Arguments:
    """Read the command line; raise LaunchError if it is invalid."""
    # `singularity run` and `docker run` start lumi-entry already.
    options, program = _split(words[1:] if list(words[:1]) == ["lumi-entry"] else words)
    parser = _parser()
    parsed, unknown = parser.parse_known_args(options)
    if unknown:
        names = [name for name in parser.format_help().split() if name.startswith("--")]
        name, _, value = unknown[0].partition("=")
        near = difflib.get_close_matches(name, names, 1, cutoff=0.75)
        rest = [*options, *program]
        following = "".join(rest[rest.index(unknown[0]) + 1 :][:1])
        hint = f"did you mean {near[0]}?" if near else ""
        raise misused(f"unknown option '{name}'", option_hint(name, value or following) or hint)
    values = vars(parsed)
    wants_help, wants_version = values.pop("help"), values.pop("version")
    if wants_help or wants_version:
        return Arguments(text=parser.format_help() if wants_help else f"lumi-entry {__version__}\n")
    if parsed.json and not parsed.print_env:
        raise misused("--json needs --print-env")
    script = "" if program[:1] in ([], ["-m"], ["--"]) else program[0]
    command = program[1:] if program[:1] == ["--"] else [interpreter(), *program]
    if not parsed.print_env and len(program) < (1 if script else 2):
        raise misused("no program given")
    return Arguments(Options(**values), program, command, script)


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options, each with its value as one word, and the words of the program."""
    options, rest = [], list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "--"):
        name = rest.pop(0)
        options.append(f"{name}={rest.pop(0)}" if name in _WITH_VALUE and rest else name)
    return options, rest


def _processes(text: str) -> int:
    if is_number(text) and 0 < int(text) <= 4096:  # more than any node has a use for
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a number of processes, got '{text}'")
