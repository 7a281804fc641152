"""``lumicontainer completion``: print the completion script of a shell.

The script runs ``lumicontainer completion names KIND WORD…`` for the current names, also in the
folder of recipes that the command line names.
"""

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import shtab

from lumicontainer.commands.parser import VERBS, make_parser
from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.errors import OK, InputError
from lumicontainer.system.terminal.output import write_document

SHELLS = ("bash", "zsh")
NAMES = "names"
_FILES = ("FILE", "-- COMMAND")
"""Options whose values can be names of files, but are read as text."""
_SCRIPTS = Path(__file__).parents[1] / "host/scripts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    shells = "{" + ",".join(SHELLS) + "}"
    parser.add_argument("shell", choices=(*SHELLS, NAMES), metavar=shells)
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script, or names for it."""
    if arguments.shell == NAMES:
        kind, *words = arguments.words or [""]
        write_document("".join(f"{name}\n" for name in _names(kind, words)))
    else:
        write_document(_script(arguments.shell))
    return OK


def _script(shell: str) -> str:
    parser = make_parser(list(VERBS))
    for action in _actions(parser):
        _set_completion(action)
    before, after = (_SCRIPTS / f"completion-{part}.{shell}" for part in ("names", "start"))
    preamble: Any = {shell: before.read_text()}
    script = shtab.complete(parser, shell, preamble=preamble)
    return f"{script}\n{after.read_text() if after.exists() else ''}"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _actions(sub)
        else:
            yield action


def _set_completion(action: Any) -> None:
    if action.dest == "shell":
        action.choices = SHELLS
    kind = "any" if (action.dest, action.metavar) == ("recipe", "NAME") else action.dest
    kind = {"options": "parameter", "verb_words": "verb"}.get(kind, kind)
    if kind in KINDS and action.nargs != 0:
        action.complete = dict.fromkeys(SHELLS, f"_lumicontainer_{kind}")
    elif action.type is Path or action.metavar in _FILES:
        action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE


def _names(kind: str, words: Sequence[str]) -> list[str]:
    """Return the names of a kind; the last of the command line's ``words`` is unfinished."""
    try:
        catalog = open_catalog(_folder(words))
    except InputError:
        catalog = open_catalog()
    return sorted(KINDS[kind](catalog, words)) if kind in KINDS else []


def _folder(words: Sequence[str]) -> Path | None:
    for word, following in pairwise([*words, ""]):
        option, _, value = word.partition("=")
        if option == "--recipes" and (value or following):
            return Path(value or following).expanduser()
        if word.endswith(".yaml") and "=" not in word:
            return Path(word).expanduser().parent
    return None


def _parameters(catalog: Catalog, words: Sequence[str]) -> Iterator[str]:
    """Yield ``layer.parameter=``; for a word with a parameter, each value that it can have."""
    layer, _, rest = words[-1].partition(".") if words else ("", "", "")
    known = set(catalog.names("layer"))
    if "=" in rest:
        name = rest.partition("=")[0]
        with contextlib.suppress(InputError):
            values = catalog.choices(layer, name) if layer in known else ()
            yield from (f"{layer}.{name}={value}" for value in values)
        return
    for each in _layers(catalog, words) & known:
        with contextlib.suppress(InputError):
            yield from (f"{each}.{name}=" for name in catalog.parameters(each))


def _layers(catalog: Catalog, words: Sequence[str]) -> set[str]:
    stems = {Path(word).stem if word.endswith(".yaml") else word for word in words[:-1]}
    for name in stems & set(catalog.names("recipe")):
        with contextlib.suppress(InputError):
            recipe = catalog.recipe(name)
            return {use.layer for use in (recipe.base, *recipe.layers)}
    return set(catalog.names("layer"))


_DOCUMENTS = ("recipe", "platform", "profile", "layer")
KINDS: Mapping[str, Callable[[Catalog, Sequence[str]], Iterable[str]]] = {
    "recipe": lambda catalog, _: catalog.names("recipe"),
    "platform": lambda catalog, _: catalog.names("platform"),
    "profile": lambda catalog, _: catalog.names("profile"),
    "parameter": _parameters,
    "verb": lambda _, __: VERBS,
    "any": lambda catalog, _: {name for kind in _DOCUMENTS for name in catalog.names(kind)},
}
