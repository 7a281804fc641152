"""``lumicontainer show``: print every value of a recipe and its origin, or one document."""

import argparse
import sys
import textwrap
from collections.abc import Iterator, Sequence

import yaml

from lumicontainer.api import documents
from lumicontainer.api.documents import KINDS, ShownDocument, ShowRequest, pins_of
from lumicontainer.commands import context
from lumicontainer.core.lock import Lock, faults
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.inputs import unpinned
from lumicontainer.core.shell import shell_value
from lumicontainer.system.terminal.output import (
    columns,
    line,
    print_folded,
    print_json,
    print_table,
    say,
)
from lumicontainer.system.units import count

ORIGINS = {
    "layer": "the layer's default",
    "variant": "the layer's variant for this accelerator",
    "profile": "the profile",
    "recipe": "the recipe",
    "option": "the command line",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "the name or file of a recipe, or the name of a platform, a profile or a layer"
    parser.add_argument("recipe", metavar="NAME", help=summary)
    context.add_options(parser, *context.RECIPE[1:])
    summary = "the kind of NAME; default: the first kind that has it"
    parser.add_argument("--kind", choices=KINDS, help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> None:
    """Print the recipe, platform, profile or layer of the given name."""
    name = arguments.recipe
    shown = documents.show(context.request_of(ShowRequest, arguments))
    for other in shown.other_kinds:
        say(f"note: there is a {other} '{name}' too: lumicontainer show {name} --kind {other}")
    if isinstance(shown, ShownDocument):
        _print_document(shown, name, as_json=arguments.json)
    elif arguments.json:
        print_json(shown.as_data())
    else:
        _print_resolved(shown.resolved, shown.locked)


def _print_document(shown: ShownDocument, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json(shown.data)
        return
    text = yaml.safe_dump(shown.data, sort_keys=False, allow_unicode=True, width=100)
    sys.stdout.write(f"# {shown.kind} {name}\n{text}")


def _print_resolved(resolved: Resolved, locked: tuple[str, Lock] | None) -> None:
    for text in (*_head(resolved), *(_lock_lines(resolved, *locked) if locked else ())):
        _print_indented(text)
    for layer in resolved.layers:
        sys.stdout.write("\n")
        print_folded("", f"{layer.name}: {layer.summary}")
        if layer.omitted:
            print_folded("  left out: ", layer.omitted)
            continue
        rows = [
            (each.name, shell_value(each.value), f"{ORIGINS[each.origin]}, {each.place}")
            for each in layer.settings
        ]
        print_table(rows)
        for text in _layer_lines(resolved, layer, locked[1] if locked else None):
            _print_indented(f"  {text}")


def _print_indented(text: str) -> None:
    own = " " * (len(text) - len(text.lstrip()))
    print_folded(own, text.strip(), below=f"{own}  ")


def _head(resolved: Resolved) -> Iterator[str]:
    platform = resolved.platform
    yield f"{resolved.recipe.name}: {resolved.recipe.summary}"
    yield f"platform {platform.name}: {platform.summary} (accelerator {platform.accelerator})"
    if resolved.profile:
        yield f"profile {resolved.profile.name}: {resolved.profile.summary}"
    for label, binds in (
        ("bind", resolved.binds()),
        ("library of the host", resolved.host_libraries()),
    ):
        for each in binds:
            source = f" [{each.source}]" if each.source else ""
            yield f"  {label} {each.path}"
            yield f"    {each.reason}{source}"


def _lock_lines(resolved: Resolved, path: str, lock: Lock) -> Iterator[str]:
    wrong = faults(lock, resolved)
    state = "it does not pin all of this image:" if wrong else "build --locked uses these only"
    yield f"lock {path}: {count(lock.pins(), 'pin')}; {state}"
    yield from (f"  {each}" for each in wrong)


def _layer_lines(resolved: Resolved, layer: ResolvedLayer, lock: Lock | None) -> Iterator[str]:
    for name, value in layer.content.environment.items():
        yield f"environment {name}={line(value)}"
    yield from (f"path {folder}" for folder in layer.content.path)
    for name, folders in layer.content.prepend.items():
        yield f"prepend {name}={':'.join(folders)}"
    sources = [source.input() for source in layer.content.sources]
    yield from (f"source {each.label}" for each in sources if each.pinned)
    yield from _folded("not pinned", unpinned(resolved, layer))
    if lock and (pins := pins_of(resolved, layer, lock)):
        shown = [pin.partition(" --hash=")[0] for pin in pins.values()]
        more = sum(each.dependency for each in lock.of(layer.name))
        shown += [f"and {more} more that these need"] if more else []
        yield from _folded("with --locked", shown)


def _folded(label: str, words: Sequence[str]) -> list[str]:
    """Return words behind a label, in lines that fit a terminal."""
    lines = textwrap.TextWrapper(columns(98) - 2, subsequent_indent="    ", break_on_hyphens=False)
    lines.break_long_words = False
    return lines.wrap(f"{label}: {', '.join(words)}") if words else []
