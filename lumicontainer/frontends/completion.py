"""Find the names that a shell completes: of documents, and of the parameters of layers."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.errors import InputError


def names_of(kind: str, words: Sequence[str]) -> list[str]:
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
    "any": lambda catalog, _: {name for kind in _DOCUMENTS for name in catalog.names(kind)},
}
