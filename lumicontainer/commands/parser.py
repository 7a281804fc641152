"""The parser of the command line, and the verbs that it knows."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

from lumicontainer import __version__
from lumicontainer.errors import INPUT_WRONG, Problem, did_you_mean
from lumicontainer.system.terminal import output

VERBS = {
    "init": "write a recipe and a layer to start from",
    "list": "list recipes, layers and platforms",
    "show": "show every resolved value of a recipe and where it came from",
    "render": "print the definition or the Dockerfile of a recipe",
    "check": "judge a recipe by the rules before it is built",
    "lock": "pin everything that an image is made of",
    "build": "build an image",
    "verify": "run the checks of an image",
    "reframe": "write a ReFrame test class that runs the checks of an image",
    "inspect": "show what an image contains",
    "run": "run a command in an image",
    "shell": "open a shell in an image",
    "binds": "list what an image needs of this host, each with the reason",
    "cache": "list, verify, prune and explain the cached layers",
    "debug": "open a shell in the state of a failed build",
    "doctor": "report what this host can do, and what is missing",
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
