"""Run some ranks under a profiler, each with its own folder (--profile)."""

from __future__ import annotations

import contextlib
import os

from ..errors import UNFIT, LaunchError, misused
from ..launch.program import absolute, find, interpreter
from ..node import cpulist
from ..rank.context import Context
from .logs import numbered

DEFAULT = "rocprofv3"


def wrap_in_profiler(context: Context, command: list[str]) -> list[str]:
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
        python = command[0] == interpreter() and command[1:]
        if not python or (command[1].startswith("-") and command[1] != "-m"):
            raise misused("--profiler torch profiles SCRIPT.py or -m MODULE, not '-- COMMAND'")
        if not own:
            return command
        runner = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_profiler.py")
        return [command[0], runner, os.path.join(_new_folder(context), "trace.json"), *command[1:]]
    tool = _tool(profiler or DEFAULT, context)
    words = _ROCM[profiler or DEFAULT].split()
    folder = _new_folder(context) if own else ""
    return [tool, *(each.format(folder) for each in words), *command] if own else command


def _ranks(text: str, size: int) -> range | frozenset[int]:
    if text == "all":
        return range(size)
    with contextlib.suppress(ValueError):
        return cpulist.parse_cpus(text, size)
    raise misused(
        f"--profile: expected 'all' or a list of ranks from 0 to {size - 1}, such as 0,8-15, "
        f"got '{text}'"
    )


def _tool(name: str, context: Context) -> str:
    path = find(name, context.env)
    if path:
        return path
    what = f"the profiler '{name}' is not in the image"
    where = f"PATH={context.env.get('PATH', '')}, and /opt/rocm/bin"
    hint = "use --profiler torch, which needs only PyTorch, or add ROCm's profiler to the recipe"
    raise LaunchError(what, where, "--profile runs ranks under this program", hint)


def _new_folder(context: Context) -> str:
    parent = context.options.log_dir or os.curdir
    folders = numbered(os.path.join(parent, f"{context.rank_stem()}.profile"))
    try:
        os.makedirs(parent, exist_ok=True)
        while True:
            folder = next(folders)
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
                return os.path.abspath(folder)
    except OSError as error:
        what = f"cannot create a folder for the profile: {error.strerror}"
        where = f"{absolute(error.filename or parent)} on {os.uname().nodename}"
        why = "each profiled rank writes to its own folder in --log-dir, or else here"
        hint = "choose a writable folder with --log-dir, or change to one"
        raise LaunchError(what, where, why, hint, code=UNFIT, alone=True) from None


_PFTRACE = "--output-format pftrace --output-directory {} --output-file trace"
_ROCM = {
    "rocprofv3": f"--runtime-trace {_PFTRACE} --",
    "rocprof": "--hip-trace -d {} -o {}/trace.csv",
}
