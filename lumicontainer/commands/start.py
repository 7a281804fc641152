"""Start images: read the image and the command of a verb, and become its process."""

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from lumicontainer import api
from lumicontainer.api import ImageRequest
from lumicontainer.commands import context
from lumicontainer.core import habits
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.binds import missing_of_user
from lumicontainer.system import process
from lumicontainer.system.terminal.output import report


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the command for a container; raise ``InputError`` if there is none."""
    verb = arguments.verb
    command: list[str] = (
        arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    )
    if not command:
        hint = f"write lumicontainer {verb} IMAGE -- COMMAND"
        raise InputError(Problem("expected a command to run", hint=hint))
    script = command[0]
    is_program = "/" in script and os.access(script, os.X_OK)
    if script.endswith(".py") and Path(script).is_file() and not is_program:
        words = shlex.join(["lumi-entry", *command])
        hint = f"lumicontainer {verb} {shlex.quote(str(arguments.image))} -- {words}"
        raise InputError(Problem(f"expected a command, got the script '{script}'", hint=hint))
    if command[0].startswith("-"):
        option, _, value = command[0].partition("=")
        habit = habits.habit_hint(verb, option, value or "".join(command[1:2]))
        usage = f"lumicontainer {verb} --platform NAME IMAGE -- COMMAND"
        what = f"expected a command, got option '{command[0]}'"
        raise InputError(Problem(what, hint=habit or f"write options before IMAGE: {usage}"))
    return command


def start(arguments: argparse.Namespace, command: Sequence[str], *, way: str = "exec") -> None:
    """Replace this process by a command in an image; ``way`` is that of ``Engine.execute``."""
    request = context.request_of(ImageRequest, arguments)
    image = api.inspect(
        request.image,
        platform=request.platform,
        recipes=request.recipes,
        extensions=request.extensions,
    )
    for problem in (*image.warnings, *missing_of_user(os.environ)):
        report(problem)
    if command and "=" not in command[0] and image.key:
        _refuse_changes(command)
        # The engine ends with 255 where a program is missing, env with 127, as a shell does.
        command = ["/usr/bin/env", *command]
    process.become(image.command(command, way), os.environ)


def _refuse_changes(command: Sequence[str]) -> None:
    """Raise ``InputError`` for a command that would change the image, which cannot be changed."""
    if hint := habits.habit_hint(habits.PROGRAM, " ".join(command[:3])):
        raise InputError(Problem(f"'{' '.join(command[:3])}' cannot change the image", hint=hint))
