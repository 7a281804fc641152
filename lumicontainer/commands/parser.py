"""The parser of the command line, and its verbs."""

import argparse
import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise, takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from lumicontainer import __version__
from lumicontainer.core import habits
from lumicontainer.errors import INPUT_WRONG, InputError, Problem, near_hint, nearest
from lumicontainer.system.terminal import output

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start with a recipe": {
        "init": "write a recipe and a layer to start from",
        "import": "write a recipe from a Dockerfile, a definition or requirements",
        "list": "list recipes, profiles, layers and platforms",
        "show": "print every value of a recipe and its origin, or a document",
        "check": "check a recipe against the rules before it is built",
        "render": "print the definition or the Dockerfile of a recipe",
    },
    "Pin its inputs": {
        "lock": "pin everything that goes into an image",
    },
    "Build the image and use it": {
        "build": "build an image",
        "inspect": "print the contents of an image",
        "verify": "run the checks of an image",
        "run": "run a command in an image",
        "extend": "add Python packages to an image, as one file next to it",
        "shell": "open a shell in an image",
        "job": "write a Slurm batch script that runs a command in an image",
        "lint": "find mistakes in batch scripts, and correct them",
        "postmortem": "find out why a job died, from its logs and records",
        "binds": "print what an image needs from this host, and why",
        "module": "write module files that start images",
        "reframe": "write a ReFrame test class that runs the checks of an image",
        "sbom": "print the bill of materials of an image",
        "diff": "compare two images, recipes, locks or profiles",
        "rebuild": "make an image again from its provenance, and compare the layers",
        "kernel": "register a Jupyter kernel that runs in an image",
        "top": "show what a running job does on its nodes",
    },
    "Share images": {
        "push": "upload an image to a registry, except the parts that it has",
        "pull": "download an image from a registry, except the parts that are here",
    },
    "Look after the host": {
        "doctor": "report what this host can do, and what is missing",
        "cache": "list, verify, prune, explain and publish the cached layers",
        "debug": "open a shell in the state of a failed build",
        "completion": "print the completion script of a shell",
        "help": "print the help of a verb",
    },
}
"""The verbs with their summaries, in the groups of the README."""
VERBS = {verb: summary for verbs in GROUPS.values() for verb, summary in verbs.items()}
"""Each verb is the module of its name in ``lumicontainer.commands``."""

_ABOUT = "Build, verify and run training containers for LUMI from one recipe."
_EXIT_CODES = """\
exit codes: 0 ok, 1 a check or a rule failed, 2 invalid input, 3 the host cannot
do it, 4 the lock is missing or stale, 5 a build step failed, 6 a download
failed, 7 a job failed, 8 no space, 70 a bug in lumicontainer, 130 interrupted
"""


_TAKING_FILES = ("build", "check")
"""Verbs after which people name files of other programs."""
_CHOICE = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)", re.DOTALL)


class _Parser(argparse.ArgumentParser):
    # Argparse uses this class for the parsers of the verbs too.

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        group = self.add_mutually_exclusive_group()
        kind: dict[str, Any] = {"dest": "talk", "action": "store_const"}
        kind["default"] = argparse.SUPPRESS
        summary = "print the result and errors only"
        group.add_argument("-q", "--quiet", const=output.QUIET, help=summary, **kind)
        summary = "print every command that is started, and the output of the steps"
        group.add_argument("-v", "--verbose", const=output.VERBOSE, help=summary, **kind)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; exit with a hint if one is nearly an option of this parser."""
        parsed, rest = super().parse_known_args(args, namespace)
        rest = self._left(parsed, rest)
        words = args or ()
        if problem := next(chain(_misread_binds(parsed, words), self._strange(rest, words)), None):
            output.report(problem)
            raise SystemExit(INPUT_WRONG)
        return parsed, rest

    def _strange(self, rest: Sequence[str], words: Sequence[str]) -> Iterator[Problem]:
        """Yield problems of words that this parser does not know, and has a hint for."""
        verb = self.prog.split()[1] if " " in self.prog else ""
        for word in (each for each in rest if not _is_option(each)):
            hint = habits.habit_hint(habits.ARGUMENT, f"{verb}: {word}")
            if not hint and verb in _TAKING_FILES:
                hint = habits.habit_hint(habits.RECIPE, word)
            if hint:
                yield Problem(f"unexpected argument '{word}'", hint=hint)
        for word in filter(_is_option, rest):
            option, _, value = word.partition("=")
            following = [*words, ""][words.index(word) + 1] if word in words else ""
            hint = habits.habit_hint(verb, option, value or following)
            if not hint and word.startswith("--"):
                hint = near_hint(option, self._option_string_actions)
            if hint:
                yield Problem(f"unknown option '{option}'", hint=hint)

    def _left(self, namespace: argparse.Namespace, rest: list[str]) -> list[str]:
        """Append words after an option to the last positional, as argparse does not."""
        last = next(reversed(self._get_positional_actions()), None)
        options = any(each.startswith("-") for each in rest)
        if options or last is None or last.nargs not in ("*", "+"):
            return rest
        words = [self._get_value(last, each) for each in rest]
        setattr(namespace, last.dest, [*getattr(namespace, last.dest), *words])
        return []

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with the code of invalid input."""
        hint = habits.habit_hint(habits.MISTAKE, message)
        if choice := _CHOICE.search(message):
            hint = hint or near_hint(choice[1], re.findall("'(.+?)'", choice[2]))
        output.report(Problem(message, hint=hint or f"{self.prog} --help"))
        raise SystemExit(INPUT_WRONG)


def _misread_binds(parsed: argparse.Namespace, words: Sequence[str]) -> Iterator[Problem]:
    """Yield the problem of a bind that is read as the image: here -v is --verbose."""
    for option, word in pairwise(words):
        is_image = option == "-v" and getattr(parsed, "image", None) == Path(word)
        if is_image and ":" in word and not os.path.lexists(word):
            hint = habits.habit_hint(habits.VOLUME, word)
            yield Problem(f"expected the file of an image, got '{word}'", hint=hint)


def verb_module(verb: str) -> ModuleType:
    """Import the module of a verb."""
    return importlib.import_module(f"lumicontainer.commands.{verb}")


def unknown_verb(word: str) -> InputError:
    """Return the error for a word that is not a verb."""
    hint = habits.habit_hint(habits.VERB, word) or near_hint(word, VERBS) or "lumicontainer --help"
    return InputError(Problem(f"unknown command '{word}'", hint=hint))


def make_parser(verbs: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of ``verbs`` with their options, or of all verbs without their options."""
    parser = _Parser(
        prog="lumicontainer",
        usage=None if verbs else "lumicontainer [-h] [-q | -v] [-V] VERB ...",
        description=f"{_ABOUT}\n\n{_grouped()}".rstrip(),
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = f"lumicontainer {__version__}"
    parser.add_argument(
        "-V", "--version", action="version", version=version, help="print the version and exit"
    )
    listed: Any = {} if verbs else {"help": argparse.SUPPRESS}
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True, **listed)
    for verb in verbs or VERBS:
        sub = add_verb(subparsers, verb, VERBS[verb])
        if verb in verbs:
            verb_module(verb).add_arguments(sub)
    return parser


def _grouped() -> str:
    """Return the verbs in their groups, for a terminal of 80 columns."""
    width = max(map(len, VERBS))
    lines = []
    for title, verbs in GROUPS.items():
        lines.append(f"{title}:")
        lines += [f"  {verb:<{width}}  {summary}" for verb, summary in verbs.items()]
        lines.append("")
    return "\n".join(lines)


def misplaced_option(words: Sequence[str]) -> str:
    """Return the first option before the verb that only a verb can have; empty if none is there."""
    before = [word.partition("=")[0] for word in takewhile(_is_option, words)]
    known = make_parser(["help"])._option_string_actions if before else {}
    # One word can hold several short options.
    strange = (each for each in before if each not in known and each[:2] not in known)
    return next((each for each in strange if not nearest(each, known)), "")


def _is_option(word: str) -> bool:
    return word.startswith("-")


def add_verb(subparsers: Any, name: str, summary: str) -> argparse.ArgumentParser:
    """Add the parser of a verb, or of an action of a verb."""
    description = f"{summary[0].upper()}{summary[1:]}."
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=summary, description=description, allow_abbrev=False
    )
    return parser
