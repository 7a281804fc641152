"""Run the command line: dispatch to the verbs, and turn errors into exit codes."""

import errno
import os
import sys
from collections.abc import Sequence

from lumicontainer import __version__, errors
from lumicontainer.commands.parser import VERBS, make_parser, verb_module
from lumicontainer.errors import INPUT_WRONG, LumicontainerError, Problem, did_you_mean
from lumicontainer.system import interruption
from lumicontainer.system.terminal import masking, output


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if argv is None:
        _use_utf8()
    words = list(sys.argv[1:] if argv is None else argv)
    sys.stdout, sys.stderr = output.lasting(sys.stdout), output.lasting(sys.stderr)
    masking.hide_urls([*os.environ.values(), *words])
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb and verb not in VERBS:
        output.report(Problem(f"unknown command '{verb}'", hint=did_you_mean(verb, VERBS)))
        return INPUT_WRONG
    # --help before a verb is the help of all verbs.
    every = not verb or {"-h", "--help"} & set(words[: words.index(verb)])
    arguments, rest = make_parser([] if every else [verb]).parse_known_args(words)
    if rest:
        hint = f"lumicontainer {verb} --help"
        output.report(Problem(f"unrecognized arguments: {' '.join(rest)}", hint=hint))
        return INPUT_WRONG
    output.set_talk(getattr(arguments, "talk", output.NORMAL))
    interruption.handle_signals()
    try:
        if hasattr(arguments, "recipe"):
            verb_module("context").find_recipe(arguments)
        code = int(verb_module(verb).run(arguments))
        # An error while Python flushes at exit has no handler.
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - reported as a bug
        return _report(error)
    return code


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
        problem = Problem(error.strerror or str(error), str(error.filename or ""))
        sys.stderr.write(f"{problem}\n")
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return errors.NO_SPACE if full else errors.HOST_UNFIT
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
