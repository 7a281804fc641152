"""Run some ranks under a profiler, each with its own folder (--profile)."""

from __future__ import annotations

import os

from ..environment import is_number
from ..errors import UNFIT, LaunchError, misused
from ..launch.program import find, interpreter
from ..rank.context import Context

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


def _ranks(text: str, size: int) -> range | set[int]:
    """Return the ranks of a list such as ``0,8-15``, or of ``all``."""
    if text == "all":
        return range(size)
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            last = first
        if not (is_number(first) and is_number(last) and int(first) <= int(last)):
            raise misused(f"--profile: expected ranks like 0,8-15 or all, got '{text}'")
        if int(last) >= size:
            raise misused(f"--profile {text} names rank {last}, but the ranks are 0 to {size - 1}")
        found.update(range(int(first), int(last) + 1))
    return found


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
    stem = os.path.join(parent, f"{context.rank_stem()}.profile")
    number = 0
    try:
        os.makedirs(parent, exist_ok=True)
        while True:
            folder = f"{stem}.{number}" if number else stem
            number += 1
            try:
                os.mkdir(folder)
            except FileExistsError:
                continue
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
