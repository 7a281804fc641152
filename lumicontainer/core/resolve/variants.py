"""Put a layer together from its parts: what holds always, and a variant, provider and version."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from lumicontainer.core import model
from lumicontainer.core.model.check import FOLDER
from lumicontainer.core.model.layer import LAYERS, PROVIDER
from lumicontainer.core.model.source import source_name
from lumicontainer.core.resolve.decisions import Setting
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import ACCELERATORS, COMPILE, SCRIPT
from lumicontainer.errors import Problems, did_you_mean

VERSION = "version"


def parameters(layer: model.Layer, variant: model.Variant) -> Iterator[model.Parameter]:
    """Yield the parameters of a layer, with the one that chooses of its providers."""
    yield from layer.parameters
    # A variant's own providers are written for it, so the first of them is its default.
    names = tuple(dict.fromkeys((*variant.providers, *layer.providers)))
    if names:
        summary = "where its software comes from"
        yield model.Parameter(PROVIDER, "string", names[0], layer.place, summary, choices=names)


def names(layer: model.Layer) -> set[str]:
    """Return the names of the parameters that a layer has with any accelerator."""
    variants = (*layer.variants.values(), model.Variant())
    return {each.name for variant in variants for each in parameters(layer, variant)}


def choices(layer: model.Layer, name: str) -> list[str]:
    """Return the values that a parameter accepts; empty if it accepts any."""
    variants = [*layer.variants.values(), model.Variant()]
    if name == VERSION:
        parts = [layer.versions, *(each.versions for each in variants)]
        for providers in (layer.providers, *(each.providers for each in variants)):
            parts += [provider.versions for provider in providers.values()]
        return sorted({version for part in parts for version in part})
    matching = [each for v in variants for each in parameters(layer, v) if each.name == name]
    if any(each.type == "boolean" for each in matching):
        return ["false", "true"]
    return sorted({choice for each in matching for choice in each.choices})


def content(
    layer: model.Layer, variant: model.Variant, settings: Iterable[Setting], problems: Problems
) -> model.Content:
    """Return what a layer puts into an image with these settings.

    Notes a version that one of the parts in use does not know.
    """
    by_name = {setting.name: setting for setting in settings}
    result = model.Content()
    for own, versions in _parts(layer, variant, by_name):
        result = merge(result, own)
        if not versions or VERSION not in by_name:
            continue
        version = by_name[VERSION]
        number = str(version.value)
        if number in versions:
            result = merge(result, versions[number])
        else:
            what = f"layer '{layer.name}' does not know the version '{number}'"
            why, hint = f"its versions are {', '.join(versions)}", did_you_mean(number, versions)
            problems.add(what, version.place, why=why, hint=hint)
    return result


def omitted(layer: model.Layer, variant: model.Variant, settings: Iterable[Setting]) -> str:
    """Return why a layer is left out, if it is: its variant or its provider says so."""
    chosen = next((str(each.value) for each in settings if each.name == PROVIDER), "")
    providers = (part.providers[chosen] for part in (variant, layer) if chosen in part.providers)
    return variant.omit or next((each.omit for each in providers if each.omit), "")


def _parts(
    layer: model.Layer, variant: model.Variant, settings: Mapping[str, Setting]
) -> Iterator[tuple[model.Content, Mapping[str, model.Content]]]:
    """Yield what a layer is made of, with what versions add to each part."""
    chosen = str(settings[PROVIDER].value) if PROVIDER in settings else ""
    for part in (layer, variant):
        yield part.content, part.versions
        if chosen in part.providers:
            provider = part.providers[chosen]
            yield provider.content, provider.versions


def merge(base: model.Content, more: model.Content) -> model.Content:
    """Return what ``base`` holds with what ``more`` adds; for one name ``more`` wins."""
    sources = {source_name(source): source for source in (*base.sources, *more.sources)}
    packages = model.Packages(*map(_joined, base.packages, more.packages))
    expects = model.Expects(*map(_joined, base.expects, more.expects))
    names = {**base.prepend, **more.prepend}
    prepend = {each: base.prepend.get(each, ()) + more.prepend.get(each, ()) for each in names}
    return model.Content(*map(_joined, base, more))._replace(
        sources=tuple(sources.values()), packages=packages, expects=expects, prepend=prepend
    )


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, Mapping):
        return {**one, **other}
    return one + other if isinstance(one, tuple) else other or one


def chosen_layers(layer: model.Layer, settings: Iterable[Setting]) -> tuple[Text, ...]:
    """Return the layers that the layer's parameters of that type name."""
    names = {each.name for each in layer.parameters if each.type == LAYERS}
    chosen = (str(each.value).split() for each in settings if each.name in names)
    return tuple(Text.at(layer.place, name) for each in chosen for name in each)


def not_chosen(
    accelerator: str, layer: model.Layer | None = None, chosen: Collection[str] = ()
) -> set[str]:
    """Return the names of folders whose files are left out: of other accelerators and layers."""
    declared = [each for each in layer.parameters if each.type == LAYERS] if layer else []
    choices = {choice for each in declared for choice in each.choices}
    return (choices - {*chosen}) | ({*ACCELERATORS} - {accelerator})


def files(
    layer: model.Layer, variant: model.Variant, others: Iterable[str]
) -> tuple[model.LayerFile, ...]:
    """Return the files of a layer that the steps of this variant get.

    These are all but the scripts that other variants run instead of its own, and the files below
    the folders ``others``.
    """
    scripts = {SCRIPT, COMPILE}
    scripts |= {name for each in layer.variants.values() for name in (each.install, each.compile)}
    scripts -= {variant.install or SCRIPT, variant.compile or COMPILE}
    fitting = _fitting(layer.files, "", others)
    return tuple(file for file in fitting if file.name not in scripts)


def fitting_checks(checks: model.Checks, others: Iterable[str]) -> model.Checks:
    """Return checks without those below the folders ``others``."""
    files = _fitting(checks.files, FOLDER, others)
    return model.Checks(files, tuple(each for each in checks.each if each.file in files))


def _fitting(
    files: tuple[model.LayerFile, ...], prefix: str, others: Iterable[str]
) -> tuple[model.LayerFile, ...]:
    folders = tuple(f"{prefix}{each}/" for each in others)
    return tuple(file for file in files if not file.name.startswith(folders))
