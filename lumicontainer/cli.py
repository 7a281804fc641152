"""The command line: parser, dispatch, and the one place where errors become exit codes."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType, ModuleType
from typing import Any, NoReturn, TextIO

from lumicontainer import __version__
from lumicontainer.errors import (
    HOST_UNFIT,
    INTERNAL,
    INTERRUPTED,
    NO_SPACE,
    LumicontainerError,
    Problem,
    did_you_mean,
)

VERBS = {
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
    "binds": "list what an image needs of this host, each with the reason",
    "cache": "list, prove, prune and explain the cached layers",
    "debug": "open a shell in the state of a failed build",
    "doctor": "say what this host can do, and what is missing",
    "completion": "print the shell completion",
}
"""Each verb is the module of its name in ``lumicontainer.commands``."""

EPILOG = """\
exit codes: 0 ok, 1 what was examined failed, 2 the input is wrong, 3 the host is not fit,
4 the lock is missing or stale, 5 a build step failed, 6 a download failed, 7 a job failed,
8 no space, 70 a bug of ours, 130 interrupted
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors read like all other messages."""

    def error(self, message: str) -> NoReturn:
        """Print the error and end with the code of wrong input."""
        sys.stderr.write(f"error: {message}\n   mend: {self.prog} --help\n")
        raise SystemExit(2)


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
    parser.add_argument("--version", action="version", version=f"lumicontainer {__version__}")
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
    words = list(sys.argv[1:] if argv is None else argv)
    # Documents become tens of thousands of small objects, none of them garbage: 4 % of a rendering.
    gc.set_threshold(100_000)
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb and verb not in VERBS:
        mend = did_you_mean(verb, VERBS)
        sys.stderr.write(f"error: there is no command '{verb}'\n   mend: {mend}\n")
        return 2
    # What stands before a verb asks for help or the version, or is wrong.
    arguments = make_parser([verb] if words[:1] == [verb] else []).parse_args(words)
    # A closed terminal (SIGHUP) must end a build like Ctrl-C does, with all that it started; but
    # nohup has a program ignore it, and that stays so.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminated)
    try:
        code = int(verb_module(verb).run(arguments))
        _keep_documents()
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


def _keep_documents() -> None:
    from lumicontainer import documents  # noqa: PLC0415 - `--version` reads none

    documents.keep()


class _Lasting(io.FileIO):
    """An output that takes what nobody reads: a verdict stays though `head` has gone."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # BrokenPipeError says too little: it is that of a lost file server (ESHUTDOWN), too.
            if error.errno != errno.EPIPE:
                raise
            return memoryview(data).nbytes


def _lasting(output: TextIO | None) -> TextIO:
    """Return an output that its reader's going does not end, and that has a code for any letter."""
    if output is None:  # Python's word for what was closed before it began.
        return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if not isinstance(output, io.TextIOWrapper) or output.fileno() > 2:
        return output
    raw = _Lasting(output.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=output.encoding,
        errors="backslashreplace",
        line_buffering=output.line_buffering,
        write_through=output.write_through,
    )


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
    return NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else HOST_UNFIT


def _bug(error: BaseException) -> int:
    if os.environ.get("LUMICONTAINER_DEBUG"):
        raise error
    sys.stderr.write(
        f"error: a bug in lumicontainer {__version__}: {type(error).__name__}: {error}\n"
        "   mend: run it again with LUMICONTAINER_DEBUG=1 and report what it prints\n"
    )
    return INTERNAL
