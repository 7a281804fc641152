"""Decide every value of an image: recipe, platform and settings in, ``Resolved`` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lumicontainer.catalog import Catalog
from lumicontainer.document import Node, Place, Problems, Scalar
from lumicontainer.errors import did_you_mean
from lumicontainer.load import parameter_value
from lumicontainer.model import (
    Bootstrap,
    Content,
    Layer,
    LayerFile,
    LayerUse,
    Parameter,
    Platform,
    Recipe,
    Source,
    Value,
    Variant,
)


@dataclass(frozen=True)
class Setting:
    """Hold one decided value: where it came from, in one word and as a place."""

    name: str
    value: Value
    origin: str
    """``layer`` (its default), ``variant`` (the accelerator's), ``recipe`` or ``option``."""
    place: str


@dataclass(frozen=True)
class ResolvedLayer:
    """Hold a layer with every value decided; ``omitted`` says why it is left out, if it is."""

    name: str
    summary: str
    settings: tuple[Setting, ...] = ()
    content: Content = field(default_factory=Content)
    files: tuple[LayerFile, ...] = ()
    checks: tuple[LayerFile, ...] = ()
    requires: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    differs: Mapping[str, str] = field(default_factory=dict)
    omitted: str = ""

    def values(self) -> dict[str, Value]:
        """Return the decided values by name."""
        return {setting.name: setting.value for setting in self.settings}


@dataclass(frozen=True)
class Resolved:
    """Hold all that decides an image."""

    recipe: Recipe
    platform: Platform
    bootstrap: Bootstrap
    layers: tuple[ResolvedLayer, ...]
    """The base first, then the recipe's layers in order, those left out among them."""

    def included(self) -> tuple[ResolvedLayer, ...]:
        """Return the layers that are built on this platform."""
        return tuple(layer for layer in self.layers if not layer.omitted)


@dataclass
class _Context:
    catalog: Catalog
    platform: Platform
    problems: Problems
    options: dict[str, dict[str, str]] = field(default_factory=dict)


def resolve(
    recipe: Recipe, catalog: Catalog, *, platform: Platform, options: Sequence[str] = ()
) -> Resolved:
    """Resolve a recipe for a platform; ``options`` are texts ``layer.parameter=value``.

    Raises ``InputError`` with every problem that the layers, values and options have.
    """
    context = _Context(catalog, platform, Problems())
    uses = (recipe.base, *recipe.layers)
    context.options = _read_options(options, uses, context.problems)
    layers = _load_layers(uses, context)
    context.problems.raise_if_any()
    resolved = tuple(_resolve_layer(use, layers[use.layer], context) for use in uses)
    _check_order(uses, layers, resolved, context.problems)
    bootstrap = _bootstrap(layers[recipe.base.layer], resolved[0], recipe, context)
    context.problems.raise_if_any()
    assert bootstrap is not None
    return Resolved(recipe, platform, bootstrap, resolved)


def _read_options(
    options: Sequence[str], uses: Sequence[LayerUse], problems: Problems
) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    known = {use.layer for use in uses}
    for option in options:
        target, equals, value = option.partition("=")
        layer, dot, parameter = target.rpartition(".")
        if not (equals and dot):
            problems.add(
                f"'{option}' sets nothing", "--set", mend="write --set layer.parameter=value"
            )
        elif layer not in known:
            problems.add(
                f"the recipe has no layer '{layer}'", "--set", mend=did_you_mean(layer, known)
            )
        else:
            result.setdefault(layer, {})[parameter] = value
    return result


def _load_layers(uses: Sequence[LayerUse], context: _Context) -> dict[str, Layer]:
    layers: dict[str, Layer] = {}
    known = context.catalog.layer_names()
    seen: dict[str, Place] = {}
    for use in uses:
        if use.layer in seen:
            first = seen[use.layer]
            context.problems.add(
                f"layer '{use.layer}' stands here twice",
                use.place,
                why=f"the first is at line {first.line}",
                mend="keep one of them",
            )
            continue
        seen[use.layer] = use.place
        if use.layer not in known:
            context.problems.add(
                f"there is no layer '{use.layer}'", use.place, mend=did_you_mean(use.layer, known)
            )
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
            mend=f"add variants.{accelerator} to {layer.place.file}, or choose another --platform",
        )
    if variant.omit:
        return ResolvedLayer(layer.name, layer.summary, omitted=variant.omit)
    return ResolvedLayer(
        layer.name,
        layer.summary,
        settings=_settings(use, layer, variant, context),
        content=merge(layer.content, variant.content),
        files=layer.files,
        checks=layer.checks,
        requires=layer.requires,
        secrets=layer.secrets,
        differs=layer.differs,
    )


def merge(base: Content, more: Content) -> Content:
    """Return what ``base`` holds with what ``more`` adds; for one name ``more`` wins."""
    sources = {source.python: source for source in (*base.sources, *more.sources)}
    return Content(
        apt=base.apt + more.apt,
        python=base.python + more.python,
        sources=tuple(sources.values()),
        environment={**base.environment, **more.environment},
        path=base.path + more.path,
    )


def _settings(
    use: LayerUse, layer: Layer, variant: Variant, context: _Context
) -> tuple[Setting, ...]:
    options = {
        name: _option_node(layer, name, value)
        for name, value in context.options.get(layer.name, {}).items()
    }
    given: list[tuple[str, Mapping[str, tuple[Node, Place]]]] = [
        ("variant", variant.parameters),
        ("recipe", use.values),
        ("option", options),
    ]
    known = {parameter.name: parameter for parameter in layer.parameters}
    settings = {p.name: Setting(p.name, p.default, "layer", str(p.place)) for p in layer.parameters}
    for origin, values in given:
        for name, (node, place) in values.items():
            if name not in known:
                context.problems.add(
                    f"layer '{layer.name}' has no parameter '{name}'",
                    place,
                    why=f"it has {', '.join(sorted(known)) or 'none'}",
                    mend=did_you_mean(name, known) if known else f"remove '{name}'",
                )
                continue
            value = parameter_value(known[name], node, context.problems)
            if value is not None:
                settings[name] = Setting(name, value, origin, str(place))
    for setting in settings.values():
        _check_buildable(setting, known[setting.name], layer, context)
    return tuple(settings.values())


def _option_node(layer: Layer, name: str, value: str) -> tuple[Node, Place]:
    """Return the node of a value from the command line, where text needs no quotes."""
    declared = next((p for p in layer.parameters if p.name == name), None)
    place = Place(f"--set {layer.name}.{name}", line=0)
    plain = declared is not None and declared.type != "string"
    return Scalar(place, value, plain), place


def _check_buildable(
    setting: Setting, parameter: Parameter, layer: Layer, context: _Context
) -> None:
    accelerator = context.platform.accelerator
    if setting.value is True and accelerator in parameter.refused:
        context.problems.add(
            f"layer '{layer.name}' cannot build {parameter.name} for '{accelerator}'",
            setting.place,
            why=parameter.refused[accelerator],
            mend=f"set {parameter.name} to false",
        )


def _check_order(
    uses: Sequence[LayerUse],
    layers: Mapping[str, Layer],
    resolved: Sequence[ResolvedLayer],
    problems: Problems,
) -> None:
    present: set[str] = set()
    names = {each.name for each in resolved if not each.omitted}
    for use, each in zip(uses, resolved, strict=True):
        layer = layers[use.layer]
        if each.omitted:
            continue
        for needed in layer.requires:
            if needed not in present:
                problems.add(
                    f"layer '{layer.name}' requires '{needed}' before it",
                    use.place,
                    mend=f"put '- {needed}' above '- {layer.name}'",
                )
        for other in layer.conflicts:
            if other in names:
                problems.add(
                    f"layers '{layer.name}' and '{other}' exclude each other",
                    use.place,
                    mend="keep one of them",
                )
        present.add(layer.name)


def _bootstrap(
    layer: Layer, resolved: ResolvedLayer, recipe: Recipe, context: _Context
) -> Bootstrap | None:
    accelerator = context.platform.accelerator
    bootstrap = layer.bootstrap.get(accelerator)
    if bootstrap is None or resolved.omitted:
        context.problems.add(
            f"layer '{layer.name}' is no base for the accelerator '{accelerator}'",
            recipe.base.place,
            why=resolved.omitted or f"{layer.place.file} has no bootstrap.{accelerator}",
            mend="name a base layer whose layer.yaml has 'bootstrap'",
        )
        return None
    release = resolved.values().get("release", bootstrap.release)
    return Bootstrap(bootstrap.agent, str(release), bootstrap.include, bootstrap.image)


def unpinned(layer: ResolvedLayer) -> tuple[str, ...]:
    """Return the inputs of a layer that no hash holds fast, in words."""
    requirements = [f"Python {each}" for each in layer.content.python]
    sources = [f"Python {each.python}" for each in layer.content.sources if not pinned(each)]
    return (*(f"apt {each}" for each in layer.content.apt), *requirements, *sources)


def pinned(source: Source) -> bool:
    """Tell whether the bytes of a source are known before they are used."""
    return bool(source.sha256)
