"""Decide every value of an image: recipe, platform and settings in, ``Resolved`` out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lumicontainer.core.catalog import Catalog
from lumicontainer.core.model import (
    Bootstrap,
    Content,
    Layer,
    LayerFile,
    LayerUse,
    Parameter,
    Platform,
    Profile,
    Recipe,
    SdistSource,
    Variant,
)
from lumicontainer.core.model.content import identity
from lumicontainer.core.resolve import completeness, order, profiles
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.facts import facts_of
from lumicontainer.core.rules.rules import of_drivers
from lumicontainer.core.schema import requirements, variants
from lumicontainer.core.schema.loading import parameter_value
from lumicontainer.core.schema.sources import FOLDER, fetched, label_of
from lumicontainer.core.setting import Setting
from lumicontainer.core.yaml.nodes import Node, Scalar
from lumicontainer.core.yaml.validators import COMPILE, NAME, SCRIPT
from lumicontainer.errors import Place, Problems, did_you_mean
from lumicontainer.system.terminal import masking

__all__ = ["Resolved", "ResolvedLayer", "Setting", "resolve"]


class _Context(NamedTuple):
    catalog: Catalog
    platform: Platform
    problems: Problems
    profile: Profile | None
    options: Mapping[str, Mapping[str, str]]


def resolve(
    recipe: Recipe,
    catalog: Catalog,
    *,
    platform: Platform,
    profile: str = "",
    options: Sequence[str] = (),
) -> Resolved:
    """Resolve a recipe for a platform; ``options`` are texts ``layer.parameter=value``.

    ``profile`` is the name of the one that is asked for. Raises ``InputError`` with every problem
    that the layers, values and options have.
    """
    problems = Problems()
    chosen = profiles.choose(recipe, platform, catalog, problems, wanted=profile)
    uses = profiles.uses(recipe, chosen)
    context = _Context(catalog, platform, problems, chosen, _read_options(options, uses, problems))
    layers = _load_layers(uses, context)
    problems.raise_if_any()
    resolved = tuple(_resolve_layer(use, layers[use.layer], context) for use in uses)
    order.check(uses, layers, resolved, catalog.layer_names(), problems)
    bootstrap = _bootstrap(layers[uses[0].layer], resolved[0], uses[0], context)
    completeness.check_purpose(uses[1:], resolved[1:], problems)
    checks = variants.fitting_checks(catalog.checks(problems), platform.accelerator)
    problems.raise_if_any()
    assert bootstrap is not None
    found = Resolved(recipe, platform, bootstrap, resolved, chosen, checks)
    completeness.check_python(found.included(), bootstrap, recipe.place, problems)
    problems.raise_if_any()
    return found._replace(drivers=of_drivers(catalog.rules().values(), facts_of(found)))


def _read_options(
    options: Sequence[str], uses: Sequence[LayerUse], problems: Problems
) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    known = {use.layer for use in uses}
    for option in options:
        target, equals, value = option.partition("=")
        layer, dot, parameter = target.rpartition(".")
        if not (equals and dot):
            hint = "write --set layer.parameter=value"
            problems.add(f"'{option}' sets nothing", "--set", hint=hint)
        elif layer not in known:
            hint = did_you_mean(layer, known)
            problems.add(f"the recipe has no layer '{layer}'", "--set", hint=hint)
        else:
            result.setdefault(layer, {})[parameter] = value
    return result


def _load_layers(uses: Sequence[LayerUse], context: _Context) -> dict[str, Layer]:
    layers: dict[str, Layer] = {}
    known = context.catalog.layer_names()
    seen: dict[str, Place] = {}
    for use in uses:
        if use.layer in seen:
            what = f"layer '{use.layer}' stands here twice"
            why = f"the first is at line {seen[use.layer].line}"
            context.problems.add(what, use.place, why=why, hint="keep one of them")
            continue
        seen[use.layer] = use.place
        if use.layer not in known:
            hint = did_you_mean(use.layer, known)
            context.problems.add(f"layer '{use.layer}' not found", use.place, hint=hint)
            continue
        layer = context.catalog.layer(use.layer, context.problems)
        if layer is not None:
            layers[use.layer] = layer
    return layers


def _resolve_layer(use: LayerUse, layer: Layer, context: _Context) -> ResolvedLayer:
    accelerator = context.platform.accelerator
    variant = layer.variants.get(accelerator, Variant())
    if layer.variants and accelerator not in layer.variants:
        context.problems.add(
            f"layer '{layer.name}' has no variant for the accelerator '{accelerator}'",
            use.place,
            why=f"it has variants for {', '.join(sorted(layer.variants))}, "
            f"and platform '{context.platform.name}' wants '{accelerator}'",
            hint=f"add variants.{accelerator} to {layer.place.file}, or choose another --platform",
        )
    if variant.omit:
        return ResolvedLayer(layer.name, layer.summary, omitted=variant.omit)
    settings = _settings(use, layer, variant, context)
    if why := variants.omitted(layer, variant, settings):
        return ResolvedLayer(layer.name, layer.summary, omitted=why)
    content = variants.content(layer, variant, settings, context.problems)
    files = variants.files(layer, variant, accelerator)
    _check_used(layer, content, files, context)
    _check_takes(layer, content, settings, context)
    _check_asked_of_pip(content, settings, context.problems)
    _check_passwords(layer, content, settings, context.problems)
    return ResolvedLayer(
        layer.name,
        layer.summary,
        settings=settings,
        content=content,
        files=files,
        script=variant.install or SCRIPT,
        compile=variant.compile or COMPILE,
        checks=variants.fitting_checks(layer.checks, accelerator),
        requires=layer.requires + variant.requires,
        secrets=layer.secrets,
        not_reproducible=layer.not_reproducible,
        folder=layer.place.file.removesuffix("/layer.yaml"),
    )


def _check_used(
    layer: Layer, content: Content, files: Sequence[LayerFile], context: _Context
) -> None:
    """Note sources that no step would fetch."""
    wanted = [each for each in content.sources if not isinstance(each, SdistSource)]
    if wanted and not fetched(wanted, files):
        context.problems.add(
            f"layer '{layer.name}' names sources that it does not use",
            layer.place,
            why=f"none of its files holds ${FOLDER}, the folder in which they would lie",
            hint=f'use "${FOLDER}/{identity(wanted[0])}" in its script',
        )


def _check_takes(
    layer: Layer, content: Content, settings: Sequence[Setting], context: _Context
) -> None:
    """Note what a layer's script takes where nothing says in which version, or of which index."""
    known = {setting.name for setting in settings}
    for each in content.pip_installs:
        for name in ("version", *filter(None, [each.index_parameter])):
            if name not in known:
                context.problems.add(
                    f"layer '{layer.name}' takes '{each.package}' and has no parameter '{name}'",
                    layer.place,
                    hint="add a version" if name == "version" else did_you_mean(name, known),
                )


def _check_asked_of_pip(content: Content, settings: Sequence[Setting], problems: Problems) -> None:
    """Note values that pip would be given and that are no version, or no index."""
    found = {setting.name: setting for setting in settings}
    sources = [each.sdist for each in content.sources if isinstance(each, SdistSource)]
    for package in [*sources, *(each.package for each in content.pip_installs)]:
        if version := found.get("version"):
            requirements.check_version(package, version.value, version.place, problems)
    for each in content.pip_installs:
        if index := found.get(each.index_parameter):
            requirements.check_index(index.value, index.place, problems)


def _check_passwords(
    layer: Layer, content: Content, settings: Sequence[Setting], problems: Problems
) -> None:
    """Note passwords in URLs: all that is written in a recipe is kept, printed and shipped."""
    written = [(each.name, str(each.value), each.place) for each in settings]
    written += [(name, value, str(layer.place)) for name, value in content.environment.items()]
    written += [(identity(each), label_of(each), str(layer.place)) for each in content.sources]
    for name, value, place in written:
        if masking.has_password(value):
            problems.add(
                f"a URL in '{name}' of layer '{layer.name}' holds a password",
                place,
                why="what a recipe says is in the image, its records and the cache",
                hint="take it out; give it by --secret, by pip config, or by --mirror FROM=TO",
            )


def _settings(
    use: LayerUse, layer: Layer, variant: Variant, context: _Context
) -> tuple[Setting, ...]:
    known = {parameter.name: parameter for parameter in variants.parameters(layer, variant)}
    options = {
        # Text needs no quotes on the command line.
        name: Scalar(
            Place(f"--set {layer.name}.{name}", line=0),
            value,
            plain=name in known and known[name].type != "string",
        )
        for name, value in context.options.get(layer.name, {}).items()
    }
    given: list[tuple[str, Mapping[str, Node]]] = [
        ("variant", variant.parameters),
        *(("profile", each.values) for each in profiles.values(context.profile, layer.name)),
        ("recipe", use.values),
        ("option", options),
    ]
    settings = {p.name: Setting(p.name, p.default, "layer", str(p.place)) for p in known.values()}
    for origin, values in given:
        for name, node in values.items():
            if name not in known:
                what = f"layer '{layer.name}' has no parameter '{name}'"
                why = f"it has {', '.join(sorted(known)) or 'none'}"
                hint = did_you_mean(name, known) if known else f"remove '{name}'"
                context.problems.add(what, node.place, why=why, hint=hint)
                continue
            value = parameter_value(known[name], node, context.problems)
            if value is not None:
                settings[name] = Setting(name, value, origin, str(node.place))
    for setting in settings.values():
        _check_buildable(setting, known[setting.name], layer, context)
    return tuple(settings.values())


def _check_buildable(
    setting: Setting, parameter: Parameter, layer: Layer, context: _Context
) -> None:
    accelerator = context.platform.accelerator
    if setting.value is True and accelerator in parameter.unsupported:
        what = f"layer '{layer.name}' cannot build {parameter.name} for '{accelerator}'"
        why, hint = parameter.unsupported[accelerator], f"set {parameter.name} to false"
        context.problems.add(what, setting.place, why=why, hint=hint)


def _bootstrap(
    layer: Layer, resolved: ResolvedLayer, use: LayerUse, context: _Context
) -> Bootstrap | None:
    accelerator = context.platform.accelerator
    bootstrap = layer.bootstrap.get(accelerator)
    if bootstrap is None or resolved.omitted:
        what = f"layer '{layer.name}' is not a base for the accelerator '{accelerator}'"
        why = resolved.omitted or f"{layer.place.file} has no bootstrap.{accelerator}"
        hint = "name a base layer whose layer.yaml has 'bootstrap'"
        context.problems.add(what, use.place, why=why, hint=hint)
        return None
    image = resolved.content.image or bootstrap.image
    release = _release(resolved, context.problems) or bootstrap.release
    return Bootstrap(bootstrap.agent, release, bootstrap.include, image)


def _release(resolved: ResolvedLayer, problems: Problems) -> str:
    """Return the release that a base is set to, if it is; it stands in a definition as it is."""
    found = next((each for each in resolved.settings if each.name == "release"), None)
    if found is None or re.fullmatch(NAME, str(found.value)):
        return str(found.value) if found else ""
    why = "it is made of small letters, digits, '-', '.', '+'"
    hint = "write it as the distribution does, such as bookworm"
    problems.add(f"no release can be called {found.value!r}", found.place, why=why, hint=hint)
    return ""
