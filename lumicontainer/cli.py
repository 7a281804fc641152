"""The command line: dispatch, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from lumicontainer import __version__
from lumicontainer.commands.parser import VERBS, make_parser, verb_module
from lumicontainer.errors import (
    HOST_UNFIT,
    INPUT_WRONG,
    INTERNAL,
    INTERRUPTED,
    NO_SPACE,
    LumicontainerError,
    Problem,
    did_you_mean,
)
from lumicontainer.system.terminal import masking, output


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if argv is None:
        _speak_utf8()
    words = list(sys.argv[1:] if argv is None else argv)
    sys.stdout, sys.stderr = output.lasting(sys.stdout), output.lasting(sys.stderr)
    masking.hide_urls([*os.environ.values(), *words])
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb and verb not in VERBS:
        output.report(Problem(f"there is no command '{verb}'", hint=did_you_mean(verb, VERBS)))
        return INPUT_WRONG
    # Before a verb, what asks for help asks for that of all.
    every = not verb or {"-h", "--help"} & set(words[: words.index(verb)])
    arguments, rest = make_parser([] if every else [verb]).parse_known_args(words)
    if rest:
        return _unknown(verb, rest)
    output.set_talk(getattr(arguments, "talk", output.NORMAL))
    _take_signals()
    try:
        if hasattr(arguments, "recipe"):
            verb_module("context").find_recipe(arguments)
        code = int(verb_module(verb).run(arguments))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - shown as a bug of ours
        return _failed(error)
    try:
        # What is written at exit fails where nobody handles it.
        sys.stdout.flush()
    except OSError as error:
        return _failed(error)
    return code


def _unknown(verb: str, rest: Sequence[str]) -> int:
    """Report words that no option of a verb takes."""
    hint = f"lumicontainer {verb} --help"
    if verb == "verify" and rest[0].endswith(".json"):
        hint = f"--json prints to stdout: write --json >{rest[0]}"
    output.report(Problem(f"unrecognized arguments: {' '.join(rest)}", hint=hint))
    return INPUT_WRONG


def _speak_utf8() -> None:
    """Begin again in Python's UTF-8 mode where the locale has another encoding.

    Words, names of files and the files themselves are then read and written as UTF-8 everywhere;
    ``PYTHONIOENCODING`` still decides how text for people is written.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, words)  # noqa: S606 - no shell is wanted


def _take_signals() -> None:
    # A closed terminal (SIGHUP) must end a build like Ctrl-C does, with all that it started; but
    # nohup has a program ignore it, and that stays so.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminated)


def _failed(error: BaseException) -> int:
    """Print what went wrong, and return the exit code for it."""
    if isinstance(error, LumicontainerError):
        sys.stderr.write(f"{error}\n")
        return error.code
    if isinstance(error, KeyboardInterrupt):
        sys.stderr.write("\ninterrupted: what was begun is removed, what was there is as it was\n")
        return INTERRUPTED
    if not isinstance(error, OSError):
        return _bug(error)
    _drop_output()
    return _host(error)


def _drop_output() -> None:
    """Let go what stdout does not take: it would be tried again at exit, and set the code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def _host(error: OSError) -> int:
    """Report what the host refused, such as a full disk or a folder that cannot be written."""
    problem = Problem(error.strerror or str(error), str(error.filename or ""))
    sys.stderr.write(f"{problem}\n")
    return NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else HOST_UNFIT


def _bug(error: BaseException) -> int:
    if os.environ.get("LUMICONTAINER_DEBUG"):
        raise error
    sys.stderr.write(
        f"error: a bug in lumicontainer {__version__}: {type(error).__name__}: {error}\n"
        "   hint: run it again with LUMICONTAINER_DEBUG=1 and report what it prints\n"
    )
    return INTERNAL
