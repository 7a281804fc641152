"""``lumicontainer completion``: what a shell needs to complete commands, options and names.

The script asks ``lumicontainer completion names KIND WORD…`` for what there is in the moment, also
in the folder of recipes that the command line names.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lumicontainer.commands.parser import VERBS, make_parser
from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.errors import OK, InputError
from lumicontainer.system.terminal.output import write_document

SHELLS = ("bash", "zsh")
NAMES = "names"
_SCRIPTS = Path(__file__).parents[1] / "host/scripts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    shells = "{" + ",".join(SHELLS) + "}"
    parser.add_argument("shell", choices=(*SHELLS, NAMES), metavar=shells)
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script, or names for it."""
    if arguments.shell == NAMES:
        kind, *words = arguments.words
        write_document("".join(f"{name}\n" for name in names(kind, words)))
    else:
        write_document(_script(arguments.shell))
    return OK


def _script(shell: str) -> str:
    import shtab  # noqa: PLC0415 - only this verb needs it

    parser = make_parser(list(VERBS))
    for action in _actions(parser):
        _complete(action, directory=shtab.DIRECTORY, file=shtab.FILE)
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


def _complete(action: argparse.Action, *, directory: Any, file: Any) -> None:
    """Say what an option or a word is completed with."""
    if action.dest == "shell":
        action.choices = SHELLS
    kind = {"NAME": "any"}.get(str(action.metavar), "recipe") if action.dest == "recipe" else ""
    kind = kind or {"options": "parameter", "verb_words": "verb"}.get(action.dest, action.dest)
    if kind in KINDS and action.nargs != 0:
        function = f"_lumicontainer_{kind}"
        action.complete = dict.fromkeys(SHELLS, function)  # type: ignore[attr-defined]
    elif action.type is Path:
        action.complete = directory if action.metavar == "DIR" else file  # type: ignore[attr-defined]


def names(kind: str, words: Sequence[str]) -> list[str]:
    """Return the names of a kind; of the command line's ``words`` the last one is unfinished."""
    try:
        catalog = open_catalog(_folder(words))
    except InputError:
        catalog = open_catalog()
    return sorted(KINDS[kind](catalog, words)) if kind in KINDS else []


def _folder(words: Sequence[str]) -> Path | None:
    """Return the user's own folder of recipes that a command line names."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--recipes" and following:
            return Path(following).expanduser()
        if word.startswith("--recipes="):
            return Path(word.partition("=")[2]).expanduser()
        if word.endswith(".yaml") and "=" not in word:
            return Path(word).expanduser().parent
    return None


def _parameters(catalog: Catalog, words: Sequence[str]) -> Iterator[str]:
    """Yield ``layer.parameter=``, or with the values that there are to choose of."""
    layer, _, rest = words[-1].partition(".") if words else ("", "", "")
    known = catalog.layer_names()
    if "=" in rest:
        yield from _values(catalog, layer, rest.partition("=")[0]) if layer in known else ()
        return
    for each in _layers(catalog, words) & set(known):
        with contextlib.suppress(InputError):
            yield from (f"{each}.{name}=" for name in catalog.parameters(each))


def _values(catalog: Catalog, layer: str, name: str) -> Iterator[str]:
    with contextlib.suppress(InputError):
        for value in catalog.choices(layer, name):
            yield f"{layer}.{name}={value}"


def _layers(catalog: Catalog, words: Sequence[str]) -> set[str]:
    """Return the layers of the recipe that a command line names, else all."""
    stems = {Path(word).stem if word.endswith(".yaml") else word for word in words[:-1]}
    for name in stems & set(catalog.recipe_names()):
        with contextlib.suppress(InputError):
            recipe = catalog.recipe(name)
            return {use.layer for use in (recipe.base, *recipe.layers)}
    return set(catalog.layer_names())


def _verbs(catalog: Catalog, words: Sequence[str]) -> Iterable[str]:
    del catalog, words
    return VERBS


KINDS: Mapping[str, Callable[[Catalog, Sequence[str]], Iterable[str]]] = {
    "recipe": lambda catalog, _: catalog.recipe_names(),
    "platform": lambda catalog, _: catalog.platform_names(),
    "profile": lambda catalog, _: catalog.profile_names(),
    "parameter": _parameters,
    "verb": _verbs,
    "any": lambda catalog, _: {
        *catalog.recipe_names(),
        *catalog.platform_names(),
        *catalog.profile_names(),
        *catalog.layer_names(),
    },
}
