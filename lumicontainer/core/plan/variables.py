"""Fold the variables that layers set, and the folders that they put before others."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lumicontainer.constants import DEFAULTS, search_path


def fold(
    below: Mapping[str, str], values: Mapping[str, str], prepend: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Return the variables above a layer.

    ``below`` are the variables of the layers below, ``values`` are what the layer sets, and
    ``prepend`` are its folders by the name of the variable that lists them.
    """
    variables = {**below, **values}
    for name, folders in prepend.items():
        variables[name] = ":".join([*folders, *filter(None, [variables.get(name)])])
    return variables


def recorded_variables(layers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the variables that an image's own start would set, by the records of its layers."""
    variables, path = dict(DEFAULTS), list[str]()
    for layer in layers:
        variables = fold(variables, layer.get("environment", {}), layer.get("prepend", {}))
        path = [*layer.get("path", ()), *path]
    return {**variables, "PATH": search_path(path)}
