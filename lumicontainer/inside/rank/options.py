"""What the command line of lumi-entry asks for."""

from __future__ import annotations

from ..errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Option:
    """Describe one option: a switch, one of ``choices``, or any word, which ``takes`` names."""

    __slots__ = ("choices", "default", "help", "name", "takes", "value")

    def __init__(
        self,
        name: str,
        text: str,
        *,
        choices: Sequence[str] = (),
        takes: str = "",
        default: str | bool = False,
        value: str | bool = True,
    ) -> None:
        self.name = name
        self.help = text
        self.choices = tuple(choices)
        self.takes = takes or "|".join(choices)
        self.default = default
        self.value = value
        """What a switch sets."""

    def field(self) -> str:
        """Return the name under which ``Options`` holds the value."""
        return self.name.lstrip("-").replace("-", "_")


OPTIONS: tuple[Option, ...] = (
    Option(
        "--launcher",
        "what makes the ranks: direct, srun or mpiexec, one a task;\n"
        "torchrun, accelerate or deepspeed (which gives a script\n"
        "--local_rank), those of a node in its one task; auto, torchrun\n"
        "for a script or module where Slurm gave one task a node several\n"
        "GPUs, else direct",
        choices=("auto", "direct", "torchrun", "accelerate", "deepspeed"),
        default="auto",
    ),
    Option("--nproc", "ranks a node for that launcher to make (default: one a GPU)", takes="N"),
    Option("--launcher-args", "options for it, as '--config_file fsdp.yaml'", takes="'WORDS'"),
    Option("--print-env", "print each variable, its value, who says so and why; start nothing"),
    Option("--json", "the same as one line of JSON"),
    Option(
        "--gpu-visibility",
        "show a rank its own GPU alone, to HIP or to ROCr; none: all (as it comes)",
        choices=("hip", "rocr", "none"),
        default="none",
    ),
    Option("--allow-gpu-sharing", "permit several ranks on one GPU"),
    Option("--no-bind", "leave each rank on the cores that it was given"),
    Option("--affinity-report", "each rank tells its GPU, cores, NUMA node and interface"),
    Option("--log-dir", "write each rank's stdout and stderr to files there", takes="DIR"),
    Option("--profile", "profile these ranks of a short run: 0,8-15 or all", takes="RANKS"),
    Option("--profiler", "with what (rocprofv3)", choices=("rocprofv3", "rocprof", "torch")),
    Option("--smi", "show the state of each node's GPUs before the start"),
    Option("--preflight", "check each node first; a bad one stops at once, with exit code 3"),
    Option("--remove-caches", "remove the caches on the node when its last rank has ended"),
)
"""In the order of --help."""

_COLUMN = 24
"""Where the texts of --help begin."""
_BY_NAME = {option.name: option for option in OPTIONS}


class Options:
    """Hold the value of each option: as given, else its default."""

    __slots__ = tuple(option.field() for option in OPTIONS)

    def __init__(self, **given: str | bool) -> None:
        for option in OPTIONS:
            setattr(self, option.field(), given.get(option.field(), option.default))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def take(words: list[str]) -> tuple[str, str | bool]:
    """Take an option off the front of ``words``; return its field and its value.

    Raises LaunchError where there is no such option, or its value is missing or none of it.
    """
    name, equals, text = words.pop(0).partition("=")
    option = _BY_NAME.get(name)
    if option is None:
        raise misused(f"unknown option '{name}'")
    if not option.takes:
        if equals:
            raise misused(f"{name} takes no value")
        return option.field(), option.value
    if not equals:
        text = words.pop(0) if words else ""
    if not text:
        raise misused(f"{name} needs a value: {option.takes}")
    if option.choices and text not in option.choices:
        raise misused(f"{name} is {option.takes}, not '{text}'")
    return option.field(), text


def misused(what: str) -> LaunchError:
    """Return the error for a command line that makes no sense."""
    return LaunchError(
        what,
        where="the command line of lumi-entry",
        why="it is: lumi-entry [OPTION]... SCRIPT.py, -m MODULE or -- COMMAND, and its arguments",
        hint="lumi-entry --help tells more; Python's own options: lumi-entry -- python3 -u X.py",
    )


def described() -> str:
    """Return the options as lines of --help."""
    rows = [(f"{o.name} {o.takes}".strip(), o.help) for o in OPTIONS]
    rows += [("--version", "print the version"), ("-h, --help", "print this")]
    below = "\n" + " " * (_COLUMN + 2)
    lines = []
    for name, text in rows:
        gap = " " * (_COLUMN - len(name)) if len(name) < _COLUMN else below
        lines.append(f"  {name}{gap}{text.replace(chr(10), below)}\n")
    return "".join(lines)
