"""The command line: parser, dispatch, and the one place where errors become exit codes."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import NoReturn

from lumicontainer import __version__
from lumicontainer.errors import INTERNAL, INTERRUPTED, OK, LumicontainerError, did_you_mean

VERBS = {
    "list": "list recipes, layers and platforms",
    "show": "show every resolved value of a recipe and where it came from",
    "render": "print the definition or the Dockerfile of a recipe",
    "build": "build an image",
    "inspect": "tell what an image holds",
    "run": "run a command in an image",
    "doctor": "say what this host can do, and what is missing",
    "completion": "print the shell completion",
}
"""Each verb is the module of its name in ``lumicontainer.commands``."""

EPILOG = """\
exit codes: 0 ok, 1 what was examined failed, 2 the input is wrong, 3 the host is not fit,
5 a build step failed, 8 no space, 70 a bug of ours, 130 interrupted
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
    """Return the parser with the options of ``verbs``; the others get their help line alone.

    Importing a verb costs time, and one call runs one of them.
    """
    parser = _Parser(
        prog="lumicontainer",
        description="Build, prove and run training containers for LUMI from one recipe.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lumicontainer {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb, summary in VERBS.items():
        sub = subparsers.add_parser(
            verb, help=summary, description=summary[0].upper() + summary[1:]
        )
        if verb in verbs:
            verb_module(verb).add_arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb and verb not in VERBS:
        mend = did_you_mean(verb, VERBS)
        sys.stderr.write(f"error: there is no command '{verb}'\n   mend: {mend}\n")
        return 2
    arguments = make_parser([verb]).parse_args(words)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return int(verb_module(verb).run(arguments))
    except LumicontainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.code
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted: what was begun is removed, what was there is as it was\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has gone, as `head` does; nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:  # noqa: BLE001 - the last resort, shown as a bug of ours
        return _bug(error)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def _bug(error: Exception) -> int:
    if os.environ.get("LUMICONTAINER_DEBUG"):
        raise error
    sys.stderr.write(
        f"error: a bug in lumicontainer {__version__}: {type(error).__name__}: {error}\n"
        "   mend: run it again with LUMICONTAINER_DEBUG=1 and report what it prints\n"
    )
    return INTERNAL
