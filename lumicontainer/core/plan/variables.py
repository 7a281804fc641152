"""Fold the variables that layers set, and the folders that they put before others."""

from collections.abc import Mapping, Sequence


def fold(
    below: Mapping[str, str], values: Mapping[str, str], prepend: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Return the variables above a layer.

    ``below`` are those of the layers below, ``values`` are what the layer sets, and ``prepend`` are
    its folders by the name of the variable that lists them.
    """
    variables = {**below, **values}
    for name, folders in prepend.items():
        variables[name] = ":".join([*folders, *filter(None, [variables.get(name)])])
    return variables
