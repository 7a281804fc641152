"""Decide every value of an image: recipe, platform and settings in, ``Resolved`` out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from lumicontainer.core.habits import PARAMETER, habit_hint
from lumicontainer.core.model import Bootstrap, Layer, LayerUse, Variant
from lumicontainer.core.model.layer import LOCALIMAGE, Parameter, parameter_value
from lumicontainer.core.model.requirements import check_index, check_version
from lumicontainer.core.model.source import FOLDER, REQUIREMENTS, fetched, sdists, source_name
from lumicontainer.core.resolve import refusals, variants
from lumicontainer.core.resolve.decisions import Materials, Resolved, ResolvedLayer, Setting
from lumicontainer.core.resolve.facts import facts_of, variables_of
from lumicontainer.core.rules.conditions import Facts
from lumicontainer.core.rules.discouraged import judge_discouraged
from lumicontainer.core.rules.rules import HOLDS, Finding, Rule, judge, of_drivers
from lumicontainer.core.yaml.nodes import Node, Scalar
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import COMPILE, FINISH, NAME, SCRIPT
from lumicontainer.errors import Place, Problems, did_you_mean, near_hint
from lumicontainer.system.terminal import masking


class _Context(NamedTuple):
    materials: Materials
    options: Mapping[str, Mapping[str, str]]
    problems: Problems

    @property
    def accelerator(self) -> str:
        return self.materials.platform.accelerator


_MANY = 8
"""Parameters of a layer; a message names no more."""


def resolve(materials: Materials, options: Sequence[str] = ()) -> Resolved:
    """Decide every value of an image; ``options`` are texts ``layer.parameter=value``.

    Raises ``InputError`` with every problem that the values and options have.
    """
    problems, uses = Problems(), materials.uses
    context = _Context(materials, _read_options(options, uses, problems), problems)
    layers = tuple(_resolve_layer(use, context) for use in uses)
    refusals.check_order(materials, layers, problems)
    bootstrap = _bootstrap(uses[0], layers[0], context)
    refusals.check_purpose(uses[1:], layers[1:], problems)
    problems.raise_if_any()
    assert bootstrap is not None
    others = variants.not_chosen(context.accelerator)
    checks = variants.fitting_checks(materials.checks, others)
    recipe, platform, profile = materials.recipe, materials.platform, materials.profile
    resolved = Resolved(recipe, platform, bootstrap, layers, profile, checks)
    refusals.check_python(resolved.included(), bootstrap, recipe.place, problems)
    problems.raise_if_any()
    facts, rules = facts_of(resolved), materials.rules
    return resolved._replace(
        drivers=of_drivers(rules, facts), findings=_findings(resolved, facts, rules)
    )


def _findings(resolved: Resolved, facts: Facts, rules: Sequence[Rule]) -> list[Finding]:
    """Return the findings of the rules, and of the platform's table for other variables."""
    findings = judge(rules, facts)
    holding = [each for each in findings if each.state == HOLDS]
    judged = {fact.variable for each in holding for part in each.seen for fact in part.facts}
    variables = {name: fact for name, fact in variables_of(resolved).items() if name not in judged}
    return [*findings, *judge_discouraged(resolved.platform, variables, facts)]


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
            problems.add(f"invalid value '{option}' of --set", "--set", hint=hint)
        elif layer not in known:
            hint = did_you_mean(layer, known)
            problems.add(f"the recipe has no layer '{layer}'", "--set", hint=hint)
        else:
            result.setdefault(layer, {})[parameter] = value
    return result


def _resolve_layer(use: LayerUse, context: _Context) -> ResolvedLayer:
    layer, accelerator = context.materials.layers[use.layer], context.accelerator
    variant = layer.variants.get(accelerator, Variant())
    if variant.omit:
        _check_left_out(use, layer, context)
        return ResolvedLayer(layer.name, layer.summary, omitted=variant.omit)
    settings = _settings(use, layer, variant, context)
    if why := variants.omitted(layer, variant, settings):
        return ResolvedLayer(layer.name, layer.summary, omitted=why)
    content = variants.content(layer, variant, settings, context.problems)
    chosen = variants.chosen_layers(layer, settings)
    others = variants.not_chosen(accelerator, layer, chosen)
    resolved = ResolvedLayer(
        layer.name,
        layer.summary,
        settings=settings,
        content=content,
        files=variants.files(layer, variant, others),
        script=variant.install or SCRIPT,
        compile=variant.compile or COMPILE,
        checks=variants.fitting_checks(layer.checks, others),
        requires=layer.requires + variant.requires + chosen,
        secrets=layer.secrets,
        not_reproducible=layer.not_reproducible,
        folder=layer.place.file.removesuffix("/layer.yaml"),
    )
    for check in (_check_used, _check_own_lines, _check_pip, _check_passwords):
        check(resolved, layer.place, context.problems)
    return resolved


def _check_left_out(use: LayerUse, layer: Layer, context: _Context) -> None:
    """Note values for a layer that is left out, if it could take them on no platform."""
    options = context.options.get(layer.name, {})
    named = {name: (value, f"--set {layer.name}.{name}") for name, value in options.items()}
    for name, node in use.values.items():
        if isinstance(node, Scalar):
            named.setdefault(name, (node.text, str(node.place)))
    known = variants.names(layer)
    for name, (value, place) in named.items():
        choices = variants.choices(layer, name)
        if name not in known:
            _note_unknown(layer, name, place, known, context.problems)
        elif choices and not {*value.split()} <= {*choices}:
            what, hint = (
                f"layer '{layer.name}' has no {name} '{value}'",
                did_you_mean(value, choices),
            )
            context.problems.add(what, place, hint=hint)


def _note_unknown(
    layer: Layer, name: str, place: Place | str, known: Iterable[str], problems: Problems
) -> None:
    names = sorted(known)
    why = f"it has {', '.join(names) or 'none'}"
    if len(names) > _MANY:
        why = f"lumicontainer show {layer.name} --kind layer prints its parameters"
    hint = habit_hint(PARAMETER, f"{layer.name}.{name}") or near_hint(name, names)
    hint = (hint or "correct the name") if names else f"remove '{name}'"
    problems.add(f"layer '{layer.name}' has no parameter '{name}'", place, why=why, hint=hint)


def _check_used(layer: ResolvedLayer, place: Place, problems: Problems) -> None:
    sources = [each for each in layer.content.sources if each.fetch()]
    # The last step runs that one, and fetches nothing.
    files = [file for file in layer.files if file.name != FINISH]
    if sources and not fetched(sources, files):
        what = f"layer '{layer.name}' names sources that it does not use"
        why = f"no file of its step holds ${FOLDER}, the folder in which they would lie"
        hint = f'use "${FOLDER}/{source_name(sources[0])}" in {layer.script}'
        problems.add(what, place, why=why, hint=hint)


def _check_own_lines(layer: ResolvedLayer, place: Place, problems: Problems) -> None:
    named = {file.name for file in layer.files}
    if sdists(layer.content.sources) and REQUIREMENTS in named:
        what = f"layer '{layer.name}' writes the file '{REQUIREMENTS}' itself"
        why = "it holds the lines of the sources that are 'sdist', with their hashes"
        problems.add(what, place, why=why, hint="give yours another name, such as tools.txt")


def _check_pip(layer: ResolvedLayer, place: Place, problems: Problems) -> None:
    """Note packages without a version or an index, and values of these that pip cannot take."""
    settings = {setting.name: setting for setting in layer.settings}
    packages = [each.sdist for each in sdists(layer.content.sources)]
    packages += [each.package for each in layer.content.pip_installs]
    needed = [(package, "version") for package in packages]
    needed += [(each.package, each.index_parameter) for each in layer.content.pip_installs]
    for package, name in needed:
        if name and name not in settings:
            what = f"layer '{layer.name}' takes '{package}' and has no parameter '{name}'"
            hint = "add a version" if name == "version" else did_you_mean(name, settings)
            problems.add(what, place, hint=hint)
    for each in layer.content.pip_installs:
        if index := settings.get(each.index_parameter):
            check_index(index.value, index.place, problems)
    if version := settings.get("version"):
        for package in packages:
            check_version(package, version.value, version.place, problems)


def _check_passwords(layer: ResolvedLayer, place: Place, problems: Problems) -> None:
    """Note passwords and tokens: all that is written in a recipe is kept, printed and shipped."""
    content = layer.content
    written = [(each.name, str(each.value), each.place) for each in layer.settings]
    for name, value in content.environment.items():
        here = value.place if isinstance(value, Text) else place
        written.append((name, value, str(here)))
    written += [(source_name(each), each.input().label, str(place)) for each in content.sources]
    for name, value, at in written:
        why = "what a recipe says is in the image, its records and the cache"
        if masking.has_password(value):
            what = f"a URL in '{name}' of layer '{layer.name}' holds a password"
            hint = "take it out; give it by --secret, by pip config, or by --mirror FROM=TO"
            problems.add(what, at, why=why, hint=hint)
        elif masking.is_secret(name, value):
            what = f"'{name}' of layer '{layer.name}' holds a secret"
            hint = (
                "take it out; a script gets it by 'secrets: [ID]' and --secret id=ID,src=FILE,"
                " and programs that run in the image by export"
            )
            problems.add(what, at, why=why, hint=hint)


def _settings(
    use: LayerUse, layer: Layer, variant: Variant, context: _Context
) -> tuple[Setting, ...]:
    known = {
        each.name: each
        for each in variants.parameters(layer, variant)
        if each.type == "boolean" or context.accelerator not in each.unsupported
    }
    options = {
        # Text needs no quotes on the command line.
        name: Scalar(
            Place(f"--set {layer.name}.{name}", line=0),
            value,
            plain=name in known and known[name].type != "string",
        )
        for name, value in context.options.get(layer.name, {}).items()
    }
    profile = context.materials.profile
    uses = [each for each in profile.values if each.layer == layer.name] if profile else []
    sources: list[tuple[str, Mapping[str, Node]]] = [
        ("variant", variant.parameters),
        *(("profile", each.values) for each in uses),
        ("recipe", use.values),
        ("option", options),
    ]
    settings = {p.name: Setting(p.name, p.default, "layer", str(p.place)) for p in known.values()}
    for origin, values in sources:
        for name, node in values.items():
            if name not in known:
                _note_unknown(layer, name, node.place, known, context.problems)
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
    accelerator = context.accelerator
    if setting.value is True and accelerator in parameter.unsupported:
        what = f"layer '{layer.name}' cannot build {parameter.name} for '{accelerator}'"
        why, hint = parameter.unsupported[accelerator], f"set {parameter.name} to false"
        context.problems.add(what, setting.place, why=why, hint=hint)


def _bootstrap(use: LayerUse, resolved: ResolvedLayer, context: _Context) -> Bootstrap | None:
    layer, accelerator = context.materials.layers[use.layer], context.accelerator
    bootstrap = layer.bootstrap.get(accelerator)
    if bootstrap is None or resolved.omitted:
        what = f"layer '{layer.name}' is not a base for the accelerator '{accelerator}'"
        why = resolved.omitted or f"{layer.place.file} has no bootstrap.{accelerator}"
        hint = "name a base layer whose layer.yaml has 'bootstrap'"
        context.problems.add(what, use.place, why=why, hint=hint)
        return None
    image = resolved.content.image or bootstrap.image
    if bootstrap.agent == LOCALIMAGE:
        image = f"{PurePosixPath(bootstrap.file).name}@sha256:{bootstrap.sha256}"
    release = bootstrap.release and (_release(resolved, context.problems) or bootstrap.release)
    own = resolved.content.image or release == bootstrap.release
    image_of = "" if own else bootstrap.release
    return bootstrap._replace(release=release, image=image, image_of=image_of)


def _release(resolved: ResolvedLayer, problems: Problems) -> str:
    """Return the release that a base is set to, if it is; it stands in a definition as it is."""
    setting = next((each for each in resolved.settings if each.name == "version"), None)
    if setting is None or re.fullmatch(NAME, str(setting.value)):
        return str(setting.value) if setting else ""
    why = "it is made of small letters, digits, '-', '.', '+'"
    hint = "write it as the distribution does, such as bookworm"
    problems.add(f"invalid release {setting.value!r}", setting.place, why=why, hint=hint)
    return ""
