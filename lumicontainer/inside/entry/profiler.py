"""Run some ranks under a profiler, each with its own folder (--profile)."""

from __future__ import annotations

import contextlib
import os

from ..errors import UNFIT, LaunchError, misused
from ..launch.program import find, interpreter
from ..node import cpulist
from ..rank.context import Context
from .logs import numbered

DEFAULT = "rocprofv3"


def wrapped(context: Context, command: list[str]) -> list[str]:
    """Return ``command`` under the profiler if ``--profile`` names this rank.

    Every rank checks that the profiler exists, so that no rank starts and waits for one that could
    not. Raises LaunchError if there is no such rank or no profiler.
    """
    text, profiler = context.options.profile, context.options.profiler
    if not text:
        if profiler:
            raise misused("--profiler needs --profile")
        return command
    ranks = _ranks(text, context.number("WORLD_SIZE") or 1)
    own = (context.number("RANK") or 0) in ranks
    if profiler == "torch":
        _check_python(command)
        return _torch(command, _new_folder(context)) if own else command
    tool = _tool(profiler or DEFAULT, context)
    return _ROCM[profiler or DEFAULT](tool, command, _new_folder(context)) if own else command


def _ranks(text: str, size: int) -> range | frozenset[int]:
    if text == "all":
        return range(size)
    with contextlib.suppress(ValueError):
        return cpulist.parse(text, size)
    raise misused(
        f"--profile: expected 'all' or a list of ranks from 0 to {size - 1}, such as 0,8-15, "
        f"got '{text}'"
    )


def _tool(name: str, context: Context) -> str:
    path = find(name, context.env)
    if path:
        return path
    raise LaunchError(
        f"the profiler '{name}' is not in the image",
        where=f"PATH={context.env.get('PATH', '')}, and /opt/rocm/bin",
        why="--profile runs ranks under this program",
        hint="use --profiler torch, which needs only PyTorch, or add ROCm's profiler to the recipe",
    )


def _check_python(command: list[str]) -> None:
    python = command[0] == interpreter() and command[1:]
    if not python or (command[1].startswith("-") and command[1:2] != ["-m"]):
        raise misused("--profiler torch profiles SCRIPT.py or -m MODULE, not '-- COMMAND'")


def _new_folder(context: Context) -> str:
    """Create STEM.profile, or STEM.profile.1 and so on if it exists."""
    parent = context.options.log_dir or os.getcwd()
    folders = numbered(os.path.join(parent, f"{context.rank_stem()}.profile"))
    try:
        os.makedirs(parent, exist_ok=True)
        while True:
            folder = next(folders)
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
                return os.path.abspath(folder)
    except OSError as error:
        raise LaunchError(
            f"cannot create a folder for the profile: {error.strerror}",
            where=f"{error.filename or parent} on {os.uname().nodename}",
            why="each profiled rank writes to its own folder in --log-dir, or else here",
            hint="choose a writable folder with --log-dir, or change to one",
            code=UNFIT,
            alone=True,
        ) from None


def _rocprofv3(tool: str, command: list[str], folder: str) -> list[str]:
    output = ["--output-format", "pftrace", "--output-directory", folder, "--output-file", "trace"]
    return [tool, "--runtime-trace", *output, "--", *command]


def _rocprof(tool: str, command: list[str], folder: str) -> list[str]:
    return [tool, "--hip-trace", "-d", folder, "-o", os.path.join(folder, "trace.csv"), *command]


def _torch(command: list[str], folder: str) -> list[str]:
    runner = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_profiler.py")
    return [command[0], runner, os.path.join(folder, "trace.json"), *command[1:]]


_ROCM = {"rocprofv3": _rocprofv3, "rocprof": _rocprof}
