"""The types that users write: recipes, layers, platforms. They hold values and do nothing."""

from lumicontainer.core.model.check import Check, CheckNeeds, Checks, Threshold
from lumicontainer.core.model.content import (
    Bind,
    Content,
    GitSource,
    Packages,
    PipInstall,
    Provider,
    SdistSource,
    Source,
    UrlSource,
    Variant,
)
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.model.layer import Bootstrap, Layer, Parameter, Value
from lumicontainer.core.model.platform import CacheFolder, Discouraged, Gpu, Platform, Variable
from lumicontainer.core.model.recipe import LayerUse, Profile, Recipe

__all__ = [
    "Bind",
    "Bootstrap",
    "CacheFolder",
    "Check",
    "CheckNeeds",
    "Checks",
    "Content",
    "Discouraged",
    "GitSource",
    "Gpu",
    "Layer",
    "LayerFile",
    "LayerUse",
    "Packages",
    "Parameter",
    "PipInstall",
    "Platform",
    "Profile",
    "Provider",
    "Recipe",
    "SdistSource",
    "Source",
    "Threshold",
    "UrlSource",
    "Value",
    "Variable",
    "Variant",
]
