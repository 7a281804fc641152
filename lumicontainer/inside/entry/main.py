"""``lumi-entry``: set the variables of one rank, then replace this process by its program."""

import os
import sys
from collections.abc import Mapping, Sequence

from ..checking import record
from ..errors import UNFIT, LaunchError
from ..image import interrupt
from ..launch import open_files, parent
from ..launch.launchers import first_of_node, is_rank_0
from ..launch.program import become, check_readable, inherited, restore_signals
from ..messages import write_message
from ..rank import affinity, caches, node_launcher
from ..rank.context import DIRECT, Context
from . import logs, preflight, profiler
from .arguments import Arguments, parse
from .decide import Decision, decide, is_alone, without_own, without_ranks
from .habits import program_hint


def main(words: Sequence[str]) -> int:
    """Run lumi-entry; return an exit code if it did not become the program."""
    restore_signals()
    env = inherited()
    try:
        return _run(words, env)
    except LaunchError as error:
        _report(error, env)
        return error.code
    except Exception as error:  # noqa: BLE001 - anything else is a bug of lumi-entry
        if first_of_node(env):
            sys.excepthook(type(error), error, error.__traceback__)
            write_message("error: this is a bug of lumi-entry\n")
        return 70


def _report(error: LaunchError, env: Mapping[str, str]) -> None:
    if is_rank_0(env) if error.shown is None else error.shown:
        write_message(f"{error}\n")
    elif error.alone or (error.local and first_of_node(env)):
        write_message(f"error: {error.what} (on {os.uname().nodename})\n")


def _run(words: Sequence[str], env: dict[str, str]) -> int:
    arguments = parse(words)
    if arguments.text:
        _print(arguments.text)
        return 0
    env = without_own(env)
    platform = record("platform.json")
    context = Context(env, platform=platform, options=arguments.options, program=arguments.program)
    try:
        decision = decide(context)
    except LaunchError as error:
        if not error.local or not arguments.options.preflight:
            raise
        # It is printed first: when another rank ends, Slurm may end this one.
        _report(error, env)
        preflight.check(context)
        return error.code
    if decision.warned():
        _note([f"warning: {text}" for text in decision.warnings])
    if arguments.options.print_env:
        _print(decision.as_json() if arguments.options.json else decision.as_text())
        _note(decision.context.notes)
    else:
        _start(arguments, decision, words)
    return 0


def _start(arguments: Arguments, decision: Decision, words: Sequence[str]) -> None:
    if arguments.script:
        check_readable(arguments.script, program_hint(arguments.program, decision.context.env))
    context = decision.context
    open_files.raise_limit()
    env = {**context.env, **decision.changes()}
    if context.start.launcher != DIRECT:
        command = node_launcher.command(context, decision.settings, words)
        marks = node_launcher.marks(context.start.launcher, decision.changes())
        become(command, {**without_ranks(env), **marks})
    for name in (node_launcher.STARTED, node_launcher.SHARE):
        env.pop(name, None)
    if agent := env.pop(node_launcher.AGENT, ""):
        parent.end_with_launcher(int(agent))
    preflight.check(context)
    preflight.show_gpus(context)
    affinity.bind(context)
    caches.make(context)
    caches.make_recorder(context)
    _note(context.notes)
    logs.redirect(context)
    command = node_launcher.local_rank_argument(context, list(arguments.command))
    if not is_alone(context.env, context.launch):
        env[interrupt.PROCESS] = str(os.getpid())
    become(profiler.wrap_in_profiler(context, command), env)


def _note(notes: Sequence[str]) -> None:
    # One write, so that lines of several ranks do not mix.
    write_message("".join(f"{text}\n" for text in notes))


def _print(text: str) -> None:
    # Values may hold bytes that are not UTF-8; they are printed unchanged.
    left = text.encode("utf-8", "surrogateescape")
    try:
        while left:
            left = left[os.write(1, left) :]
    except OSError as error:
        what = f"cannot write to stdout: {error.strerror}"
        where = f"stdout of the process on {os.uname().nodename}"
        hint = "redirect stdout to a file system with free space"
        why = "lumi-entry prints its result there"
        raise LaunchError(what, where, why, hint, code=UNFIT, shown=True) from None
