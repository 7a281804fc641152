"""The types that users write: recipes, layers, platforms. They hold values and do nothing."""

from lumicontainer.core.model.check import Check, CheckNeeds, Checks, Threshold
from lumicontainer.core.model.files import LayerFile, Value
from lumicontainer.core.model.layer import (
    Bind,
    Bootstrap,
    BuiltSource,
    Content,
    Expects,
    Layer,
    Packages,
    Parameter,
    PipInstall,
    Provider,
    Variant,
)
from lumicontainer.core.model.platform import (
    Advised,
    CacheFolder,
    Discouraged,
    Gpu,
    Platform,
    Variable,
)
from lumicontainer.core.model.recipe import LayerUse, Profile, Recipe
from lumicontainer.core.model.slurm import Billing, Partition, Share, Slurm, SrunOption
from lumicontainer.core.model.source import GitSource, SdistSource, Source, UrlSource
