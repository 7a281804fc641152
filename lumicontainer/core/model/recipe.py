"""The keys of recipes and profiles."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from lumicontainer.constants import FORMAT
from lumicontainer.core.habits import NAME, habit_hint
from lumicontainer.core.yaml import readers, validators
from lumicontainer.core.yaml.nodes import Mapping as MappingNode
from lumicontainer.core.yaml.nodes import Node, Scalar
from lumicontainer.core.yaml.readers import Text, mapping, schema_of, with_schema
from lumicontainer.core.yaml.record import fields_of
from lumicontainer.core.yaml.validators import Accelerator, Format, Summary
from lumicontainer.errors import Place, Problems


class LayerUse(NamedTuple):
    """Name a layer in a recipe, with the values that the recipe gives its parameters."""

    layer: str
    place: Place
    values: Mapping[str, Node] = {}


_VALUES = mapping(validators.values, key=validators.name)


@with_schema(
    lambda: {
        "oneOf": [
            schema_of(validators.name),
            {**schema_of(_VALUES), "minProperties": 1, "maxProperties": 1},
        ]
    }
)
def _layer_use(node: Node, problems: Problems) -> LayerUse | None:
    """Read ``name``, or ``name: {parameter: value}``."""
    if not isinstance(node, MappingNode):
        layer = validators.name(node, problems)
        return None if layer is None else LayerUse(layer, node.place)
    if len(node.entries) != 1:
        what = "a layer with parameters is written 'name: {parameter: value}'"
        problems.add(what, node.place, hint="begin each layer on a separate line with '- '")
        return None
    name, value = node.entries[0]
    if isinstance(value, Scalar) and (hint := habit_hint(NAME, f"{name.text}=={value.text}")):
        problems.add(f"expected parameters of '{name.text}'", value.place, hint=hint)
        return None
    return next(iter(_layer_uses(node, problems) or ()), None)


@with_schema(lambda: schema_of(_VALUES))
def _layer_uses(node: Node, problems: Problems) -> tuple[LayerUse, ...] | None:
    """Read ``name: {parameter: value}`` for any number of layers."""
    uses: Any = _VALUES(node, problems)
    if uses is None:
        return None
    return tuple(LayerUse(layer, layer.place, values) for layer, values in uses.items())


_LINES = readers.sequence(readers.line)


@with_schema(lambda: {**schema_of(_LINES), "type": ["array", "null"]})
def _missing(node: Node, problems: Problems) -> tuple[Text, ...] | None:
    """Read a list of lines, or the key that is left when all of them are deleted."""
    if isinstance(node, Scalar) and node.plain and not node.text:
        return ()
    return _LINES(node, problems)


class Recipe(NamedTuple):
    """Say what goes into an image: a base and layers, in order."""

    name: str
    summary: Summary
    """A description of the image, in one line."""
    place: Place
    base: Annotated[LayerUse, _layer_use]
    """A layer with a `bootstrap`."""
    layers: tuple[Annotated[LayerUse, _layer_use], ...]
    """The layers in order: a name, or a name with its parameters."""
    text: str
    profiles: tuple[Annotated[Text, validators.stem], ...] = ()
    """The profiles that the recipe was made for, the preferred ones first."""
    missing: Annotated[tuple[Text, ...], _missing] = ()
    """Things that an imported file has and the image lacks: `import` writes them. `build` refuses
    the recipe until each line is deleted."""
    format: Format = FORMAT
    """The format of the document: 1. It changes if a key is renamed or removed."""


class Profile(NamedTuple):
    """Hold values that go together: versions of several layers that are known to work as one."""

    name: str
    summary: Summary
    """A description of the set, in one line."""
    place: Place
    accelerator: Accelerator
    """The accelerator of the platforms that it is for."""
    base: Annotated[LayerUse | None, _layer_use] = None
    """The base, instead of the recipe's."""
    values: Annotated[tuple[LayerUse, ...], _layer_uses] = ()
    """Values of parameters, by layer. Layers that the recipe does not have are ignored."""
    format: Format = FORMAT
    """The format of the document: 1. It changes if a key is renamed or removed."""


RECIPE = fields_of("recipe", Recipe)
PROFILE = fields_of("profile", Profile)
