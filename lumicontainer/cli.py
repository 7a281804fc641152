"""Run the command line: dispatch to the verbs, and turn errors into exit codes."""

import argparse
import os
import sys
from collections.abc import Sequence

from lumicontainer import __version__, errors
from lumicontainer.commands.parser import (
    VERBS,
    make_parser,
    misplaced_option,
    unknown_verb,
    verb_module,
)
from lumicontainer.errors import HostError, InputError, LumicontainerError, Problem
from lumicontainer.system import interruption
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal import masking, output


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if argv is None:
        _use_utf8()
    words = list(sys.argv[1:] if argv is None else argv)
    sys.stdout, sys.stderr = output.lasting(sys.stdout), output.lasting(sys.stderr)
    masking.hide_urls([*os.environ.values(), *words])
    try:
        code = _dispatch(words)
        # An error while Python flushes at exit has no handler.
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - reported as a bug
        return _report(error)
    return code


def _dispatch(words: Sequence[str]) -> int:
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb and (option := misplaced_option(words)):
        hint = f"write options after the verb: lumicontainer VERB {option}"
        raise InputError(Problem(f"unknown option '{option}' before the verb", hint=hint))
    if verb and verb not in VERBS:
        raise unknown_verb(verb)
    # --help before a verb is the help of all verbs.
    every = not verb or {"-h", "--help"} & set(words[: words.index(verb)])
    # Without a word, too.
    words = words or ["--help"]
    try:
        arguments, rest = make_parser([] if every else [verb]).parse_known_args(words)
        if rest:
            hint = f"lumicontainer {verb} --help"
            raise InputError(Problem(f"unrecognized arguments: {' '.join(rest)}", hint=hint))
        return _run(arguments)
    except SystemExit as end:  # Argparse ends with its help, and at wrong options.
        return int(end.code or errors.OK)


def _run(arguments: argparse.Namespace) -> int:
    output.set_talk(getattr(arguments, "talk", output.NORMAL))
    interruption.handle_signals()
    _require_current_folder()
    if hasattr(arguments, "image"):
        verb_module("context").find_images(arguments)
    return verb_module(arguments.verb).run(arguments) or errors.OK


def _require_current_folder() -> None:
    try:
        os.getcwd()  # noqa: PTH109 - nothing is made of it
    except FileNotFoundError as error:
        hint = "cd to a folder that exists"
        raise HostError(Problem("the current folder does not exist", hint=hint)) from error


def _use_utf8() -> None:
    """Restart in Python's UTF-8 mode if the locale has another encoding.

    Arguments, names of files and the files themselves are then UTF-8 everywhere.
    ``PYTHONIOENCODING`` still decides the encoding of text for people.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, words)  # noqa: S606 - no shell is wanted


def _report(error: BaseException) -> int:
    if isinstance(error, LumicontainerError):
        sys.stderr.write(f"{error}\n")
        return error.code
    if isinstance(error, KeyboardInterrupt):
        sys.stderr.write("\ninterrupted: unfinished files were removed, all others are unchanged\n")
        return errors.INTERRUPTED
    if isinstance(error, OSError):
        _drop_output()
        what = "cannot read or write this path" if error.filename else "cannot finish the command"
        return _report(refused(error, what, str(error.filename or "")))
    if os.environ.get("LUMICONTAINER_DEBUG"):
        raise error
    sys.stderr.write(
        f"error: a bug in lumicontainer {__version__}: {type(error).__name__}: {error}\n"
        "   hint: repeat the command with LUMICONTAINER_DEBUG=1, and report what it prints\n"
    )
    return errors.INTERNAL


def _drop_output() -> None:
    """Discard what stdout does not accept: Python would write it at exit, and change the code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
