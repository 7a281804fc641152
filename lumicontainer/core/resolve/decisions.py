"""All that decides an image, as ``resolve`` returns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lumicontainer.core.model import (
    Bind,
    Bootstrap,
    Checks,
    Content,
    LayerFile,
    Platform,
    Profile,
    Recipe,
    Value,
)
from lumicontainer.core.setting import Setting
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import COMPILE, SCRIPT


class ResolvedLayer(NamedTuple):
    """Hold a layer with every value decided; ``omitted`` says why it is left out, if it is."""

    name: str
    summary: str
    settings: tuple[Setting, ...] = ()
    content: Content = Content()
    files: tuple[LayerFile, ...] = ()
    script: str = SCRIPT
    """The one of the files that installs it, where it is there."""
    compile: str = COMPILE
    """The one of the files that compiles its wheels, where it is there."""
    checks: Checks = Checks()
    requires: tuple[Text, ...] = ()
    secrets: tuple[str, ...] = ()
    not_reproducible: Mapping[str, str] = {}
    omitted: str = ""
    folder: str = ""
    """Where its files lie, for messages; empty where a lock takes their place."""

    def values(self) -> dict[str, Value]:
        """Return the decided values by name."""
        return {setting.name: setting.value for setting in self.settings}


class Resolved(NamedTuple):
    """Hold all that decides an image."""

    recipe: Recipe
    platform: Platform
    bootstrap: Bootstrap
    layers: tuple[ResolvedLayer, ...]
    """The base first, then the recipe's layers in order, those left out among them."""
    profile: Profile | None = None
    checks: Checks = Checks()
    """Those that every image has, beside those of its layers."""
    drivers: tuple[Mapping[str, Any], ...] = ()
    """What is known to be bad with the drivers that its nodes may have (``rules.of_drivers``)."""

    def included(self) -> tuple[ResolvedLayer, ...]:
        """Return the layers that are built on this platform."""
        return tuple(layer for layer in self.layers if not layer.omitted)

    def binds(self) -> tuple[Bind, ...]:
        """Return what of the host its containers need: the platform's binds, then the layers'."""
        layers = (bind for layer in self.included() for bind in layer.content.binds)
        return _by_path((*self.platform.binds, *layers))

    def host_libraries(self) -> tuple[Bind, ...]:
        """Return the libraries of the host that its containers need with all that these need."""
        return _by_path(each for layer in self.included() for each in layer.content.host_libraries)


def _by_path(binds: Iterable[Bind]) -> tuple[Bind, ...]:
    found: dict[str, Bind] = {}
    for bind in binds:
        found.setdefault(bind.path, bind)
    return tuple(found.values())
