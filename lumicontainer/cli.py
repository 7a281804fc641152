"""The command line: parser, dispatch, and the one place where errors become exit codes."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType, ModuleType
from typing import Any, NoReturn

from lumicontainer import __version__
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

VERBS = {
    "init": "write a recipe and a layer to start from",
    "list": "list recipes, layers and platforms",
    "show": "show every resolved value of a recipe and where it came from",
    "render": "print the definition or the Dockerfile of a recipe",
    "check": "say what is known to be wrong with a recipe's image, before it is built",
    "lock": "hold fast all that an image is made of",
    "build": "build an image",
    "verify": "prove that an image works",
    "reframe": "write a test class with which ReFrame proves an image",
    "inspect": "tell what an image holds",
    "run": "run a command in an image",
    "shell": "open a shell in an image",
    "binds": "list what an image needs of this host, each with the reason",
    "cache": "list, prove, prune and explain the cached layers",
    "debug": "open a shell in the state of a failed build",
    "doctor": "say what this host can do, and what is missing",
    "help": "print the help of a verb",
    "completion": "print the shell completion",
}
"""Each verb is the module of its name in ``lumicontainer.commands``."""

EPILOG = """\
exit codes: 0 ok, 1 what was examined failed, 2 the input is wrong, 3 the host is not fit,
4 the lock is missing or stale, 5 a build step failed, 6 a download failed, 7 a job failed,
8 no space, 70 a bug of ours, 130 interrupted
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors read like all other messages, and which takes ``-q`` and ``-v``.

    Argparse makes the parsers of verbs of this class too, so that no verb lacks them.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        talk = self.add_mutually_exclusive_group()
        kind: dict[str, Any] = {"dest": "talk", "action": "store_const"}
        kind["default"] = argparse.SUPPRESS
        what = "print the result and errors only"
        talk.add_argument("-q", "--quiet", const=output.QUIET, help=what, **kind)
        what = "print every command that is started, and what the steps print"
        talk.add_argument("-v", "--verbose", const=output.VERBOSE, help=what, **kind)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse words, and end where one is nearly an option of this parser."""
        found, rest = super().parse_known_args(args, namespace)
        for word in (each.partition("=")[0] for each in rest if each.startswith("--")):
            hint = did_you_mean(word, self._option_string_actions)
            if hint.startswith("did"):
                output.report(Problem(f"there is no option '{word}'", hint=hint))
                raise SystemExit(INPUT_WRONG)
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Print the error and end with the code of wrong input."""
        output.report(Problem(message, hint=f"{self.prog} --help"))
        raise SystemExit(INPUT_WRONG)


def verb_module(verb: str) -> ModuleType:
    """Import the module of a verb."""
    return importlib.import_module(f"lumicontainer.commands.{verb}")


def make_parser(verbs: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of ``verbs`` with their options; without any that of all, by help lines.

    Importing a verb costs time, and so does a parser; one call runs one of them.
    """
    width = _help_width()
    parser = _Parser(
        prog="lumicontainer",
        description="Build, prove and run training containers for LUMI from one recipe.",
        epilog=EPILOG,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=width),
        allow_abbrev=False,
    )
    version = f"lumicontainer {__version__}"
    parser.add_argument("-V", "--version", action="version", version=version)
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in verbs or VERBS:
        summary = VERBS[verb]
        told = summary[0].upper() + summary[1:]
        sub = subparsers.add_parser(
            verb,
            help=summary,
            description=told,
            allow_abbrev=False,
            formatter_class=partial(argparse.HelpFormatter, width=width),
        )
        if verb in verbs:
            verb_module(verb).add_arguments(sub)
    return parser


def _help_width() -> int:
    """Return how wide a line of help may be, in columns: those of the terminal less two.

    Argparse asks shutil for it even where no help is printed, and that imports what packs archives:
    a tenth of the time of ``--version``.
    """
    told = os.environ.get("COLUMNS", "")
    columns = int(told) if told.isdecimal() else 0
    if not columns:
        with contextlib.suppress(OSError):
            columns = os.get_terminal_size().columns
    return (columns or 80) - 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if argv is None:
        _speak_utf8()
    words = list(sys.argv[1:] if argv is None else argv)
    # Documents become tens of thousands of small objects, none of them garbage: 4 % of a rendering.
    gc.set_threshold(100_000)
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
    # Python looks for garbage once more at its end: 5 % of a rendering, for nothing.
    gc.freeze()
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
