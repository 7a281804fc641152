"""Show a layer or a profile as it is written, for all accelerators, as ``show`` does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lumicontainer.commands import context
from lumicontainer.core.model import (
    Content,
    Layer,
    LayerFile,
    Parameter,
    Profile,
    Provider,
    Variant,
)
from lumicontainer.core.nodes import Scalar
from lumicontainer.core.schema.sources import label_of
from lumicontainer.errors import Place
from lumicontainer.system.terminal.output import line

Lines = Iterator[str]
_ALWAYS = ("default", "requires", "parameters")
"""What JSON has even where it is empty."""
_FORMS: Mapping[type, Callable[[Any], str]] = {
    Place: str,
    Scalar: lambda scalar: scalar.text,
    LayerFile: lambda file: file.name,
}


def print_layer(layer: Layer) -> None:
    """Print all that a layer says of itself."""
    out = sys.stdout.write
    out(f"layer {layer.name}: {layer.summary}\n  from {layer.place.file}\n")
    if layer.parameters:
        out("parameters\n")
        context.print_table([_parameter_row(each) for each in layer.parameters])
    for text in _always(layer):
        out(f"{text}\n")
    for name, variant in layer.variants.items():
        out(f"for {name}\n")
        for text in _variant(variant):
            out(f"  {text}\n")
    if layer.checks.each:
        out("checks\n")
        context.print_table([(each.name, each.level, each.summary) for each in layer.checks.each])


def _parameter_row(parameter: Parameter) -> tuple[str, ...]:
    of = f"one of {', '.join(parameter.choices)}" if parameter.choices else parameter.type
    refused = "".join(f"; not for {name}: {why}" for name, why in parameter.unsupported.items())
    default = parameter.default
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    return (parameter.name, shown, of, f"{parameter.summary}{refused}")


def _always(layer: Layer) -> Lines:
    """Yield what holds for every accelerator."""
    for label, names in (
        ("requires", layer.requires),
        ("conflicts with", layer.conflicts),
        ("secrets", layer.secrets),
    ):
        if names:
            yield f"{label} {', '.join(names)}"
    for name, each in layer.bootstrap.items():
        made = f"{each.agent} {each.release}".rstrip()
        yield f"base for {name}: {made}, as a Docker image {each.image}"
    yield from _content(layer.content)
    yield from _choices(layer.versions, layer.providers)


def _variant(variant: Variant) -> Lines:
    if variant.omit:
        yield f"left out: {variant.omit}"
    if variant.requires:
        yield f"requires {', '.join(variant.requires)}"
    for label, script in (("installed by", variant.install), ("compiled by", variant.compile)):
        if script:
            yield f"{label} {script}"
    for name, (node, _) in variant.parameters.items():
        yield f"default {name}={line(node.text) if isinstance(node, Scalar) else '…'}"
    yield from _content(variant.content)
    yield from _choices(variant.versions, variant.providers)


def _choices(versions: Mapping[str, Content], providers: Mapping[str, Provider]) -> Lines:
    """Yield what each value of the parameters ``version`` and ``provider`` adds."""
    for name, content in versions.items():
        yield f"version {name}"
        yield from (f"  {text}" for text in _content(content))
    for name, provider in providers.items():
        yield f"provider {name}" + (f", left out: {provider.omit}" if provider.omit else "")
        yield from (f"  {text}" for text in _content(provider.content))
        yield from (f"  {text}" for text in _choices(provider.versions, {}))


def _content(content: Content) -> Lines:
    for label, names in (("apt", content.apt), ("Python", content.python)):
        if names:
            yield f"{label} {', '.join(names)}"
    for each in content.pip_installs:
        yield f"Python {each.package}, in the layer's version"
    if content.image:
        yield f"image {content.image}"
    yield from (f"source {label_of(source)}" for source in content.sources)
    yield from (f"environment {name}={line(each)}" for name, each in content.environment.items())
    yield from (f"path {folder}" for folder in content.path)
    yield from (f"provides {name} {version}" for name, version in content.provides.items())
    yield from (f"bind {each.path}: {each.reason}" for each in content.binds)
    yield from (
        f"library of the host {each.path}: {each.reason}" for each in content.host_libraries
    )


def print_profile(profile: Profile) -> None:
    """Print the values that a profile holds."""
    out = sys.stdout.write
    out(f"profile {profile.name}: {profile.summary}\n  from {profile.place.file}\n")
    out(f"accelerator {profile.accelerator}\n")
    if profile.base:
        out(f"base {profile.base.layer}\n")
    values = profile_data(profile)["values"]
    rows = [(layer, name, text) for layer in values for name, text in values[layer].items()]
    if rows:
        out("values\n")
        context.print_table(rows)


def profile_data(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain data."""
    uses = {each.layer: each.values for each in profile.values}
    return {
        "name": profile.name,
        "summary": profile.summary,
        "place": str(profile.place),
        "accelerator": profile.accelerator,
        "base": profile.base.layer if profile.base else None,
        "values": {
            layer: {name: plain(node) for name, (node, _) in values.items()}
            for layer, values in uses.items()
        },
    }


def layer_data(layer: Layer) -> dict[str, Any]:
    """Return a layer as plain data, without what it does not say."""
    return {**plain(layer), "checks": [plain(each) for each in layer.checks.each]}


def plain(value: Any) -> Any:
    """Return a value of the model as JSON has it; what is empty in it is left out."""
    for kind, form in _FORMS.items():
        if isinstance(value, kind):
            return form(value)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "_asdict"):
        fields = {name: plain(each) for name, each in value._asdict().items()}
        empty: tuple[Any, ...] = ("", [], {}, None)
        return {name: each for name, each in fields.items() if each not in empty or name in _ALWAYS}
    if isinstance(value, tuple):
        given = len(value) == 2 and isinstance(value[1], Place)
        return plain(value[0]) if given else [plain(each) for each in value]
    return value
