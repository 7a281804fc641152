"""The materials of an image, and every decision about it that ``resolve`` makes of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.core import model
from lumicontainer.core.rules.rules import Finding, Rule
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import COMPILE, SCRIPT


class Materials(NamedTuple):
    """Hold the documents that an image is made of, as ``Catalog.materials`` reads them."""

    recipe: model.Recipe
    platform: model.Platform
    uses: Sequence[model.LayerUse]
    """The base, which a profile may change, and the recipe's layers."""
    layers: Mapping[str, model.Layer]
    """The layer of each use."""
    known: Collection[str] = ()
    """The names of all layers, used or not."""
    profile: model.Profile | None = None
    checks: model.Checks = model.Checks()
    """The checks that every image has."""
    rules: Sequence[Rule] = ()


class Setting(NamedTuple):
    """Hold the decided value of one parameter: where it came from, in one word and as a place."""

    name: str
    value: model.Value
    origin: str
    """``layer`` (its default), ``variant`` (the accelerator's), ``profile``, ``recipe`` or
    ``option``."""
    place: str


class ResolvedLayer(NamedTuple):
    """Hold a layer with every value decided; ``omitted`` says why it is left out, if it is."""

    name: str
    summary: str
    settings: tuple[Setting, ...] = ()
    content: model.Content = model.Content()
    files: tuple[model.LayerFile, ...] = ()
    script: str = SCRIPT
    """The file that installs it, if it exists."""
    compile: str = COMPILE
    """The file that compiles its wheels, if it exists."""
    checks: model.Checks = model.Checks()
    requires: tuple[Text, ...] = ()
    secrets: tuple[str, ...] = ()
    not_reproducible: Mapping[str, str] = {}
    omitted: str = ""
    folder: str = ""
    """The place of its files, for messages; empty if a lock takes their place."""

    def values(self) -> dict[str, model.Value]:
        """Return the decided values by name."""
        return {setting.name: setting.value for setting in self.settings}


class Resolved(NamedTuple):
    """Hold all that decides an image."""

    recipe: model.Recipe
    platform: model.Platform
    bootstrap: model.Bootstrap
    layers: tuple[ResolvedLayer, ...]
    """The base first, then the recipe's layers in order, those left out among them."""
    profile: model.Profile | None = None
    checks: model.Checks = model.Checks()
    """The checks that every image has, in addition to its layers' checks."""
    drivers: tuple[Mapping[str, Any], ...] = ()
    """Known faults with the drivers that its nodes may have (``rules.of_drivers``)."""
    findings: Sequence[Finding] = ()
    """The verdict of each rule."""
    lock: str = ""
    """The text of the lock whose pins it has; empty without one."""

    def included(self) -> tuple[ResolvedLayer, ...]:
        """Return the layers that are built on this platform."""
        return tuple(layer for layer in self.layers if not layer.omitted)

    def python(self) -> str:
        """Return the version of its Python, such as 3.11; empty if no layer states it."""
        contents = [layer.content for layer in self.included()]
        stated = ({**each.apt_versions, **each.provides}.get("python", "") for each in contents)
        return next(filter(None, stated), "")

    def binds(self) -> tuple[model.Bind, ...]:
        """Return what of the host its containers need: the platform's binds, then the layers'."""
        layers = (bind for layer in self.included() for bind in layer.content.binds)
        return _by_path((*self.platform.binds, *layers))

    def host_libraries(self) -> tuple[model.Bind, ...]:
        """Return the libraries of the host that its containers need with all that these need."""
        named = (each for layer in self.included() for each in layer.content.host_libraries)
        return _by_path(model.Bind(*each) for each in named)


def _by_path(binds: Iterable[model.Bind]) -> tuple[model.Bind, ...]:
    first_binds: dict[str, model.Bind] = {}
    for bind in binds:
        first_binds.setdefault(bind.path, bind)
    return tuple(first_binds.values())
