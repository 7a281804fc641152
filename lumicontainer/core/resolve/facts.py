"""Collect the facts about an image before it is built: versions, values, tags of its wheels."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from lumicontainer.core.model import Platform, Value
from lumicontainer.core.model.requirements import is_file_of, requirement_lines
from lumicontainer.core.model.source import source_facts, source_name
from lumicontainer.core.model.wheel_names import normal, rocm_tags
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.inputs import BUILD_REQUIREMENTS
from lumicontainer.core.rules.conditions import COMMIT, ENVIRONMENT, PACKAGE, Fact, Facts
from lumicontainer.inside import version_range


def facts_of(resolved: Resolved) -> Facts:
    """Return the facts about an image."""
    groups: dict[str, tuple[Fact, ...]] = {}
    for layer in resolved.included():
        for name, fact in _of_layer(layer):
            groups[name] = (*groups.get(name, ()), fact)
    rocm = next((fact.value for fact in groups.get("rocm", ())), "")
    for name, fact in _of_platform(resolved.platform, rocm):
        groups[name] = (*groups.get(name, ()), fact)
    return {
        name: tuple(each for each in facts if each.value) or facts for name, facts in groups.items()
    }


def _of_layer(layer: ResolvedLayer) -> Iterator[tuple[str, Fact]]:
    where = f"layer '{layer.name}'"
    version = next((each for each in layer.settings if each.name == "version"), None)
    yield layer.name, Fact(str(version.value), version.place) if version else Fact("", where)
    for setting in layer.settings:
        yield f"{layer.name}.{setting.name}", Fact(written(setting.value), setting.place)
    for name, value in {**layer.content.apt_versions, **layer.content.provides}.items():
        yield name, Fact(value, where)
    yield from ((ENVIRONMENT + each.variable, each) for each in _variables(layer))
    requirements = [(requirement, where) for requirement in layer.content.python]
    requirements += _in_files(layer)
    for requirement, place in requirements:
        name, _, pinned = requirement.partition("==")
        yield PACKAGE + normal(name), Fact(pinned, place)
    texts = [(str(setting.value), setting.place) for setting in layer.settings]
    for text, place in (*texts, *requirements):
        for tag in rocm_tags(text):
            yield "wheel.rocm", Fact(tag, place)
    for source in layer.content.sources:
        for name, value in source_facts(source):
            if name == COMMIT:
                yield f"{layer.name}.{name}", Fact(value, where)
            else:
                yield name, Fact(value, f"{where}: {source_name(source)}")


def variables_of(resolved: Resolved) -> dict[str, Fact]:
    """Return the variables that the layers of an image set, each with the last layer that does."""
    facts = (fact for layer in resolved.included() for fact in _variables(layer))
    return {fact.variable: fact for fact in facts}


def _variables(layer: ResolvedLayer) -> Iterator[Fact]:
    where, content = f"layer '{layer.name}'", layer.content
    yield from (Fact(value, where, name) for name, value in content.environment.items())
    yield from (Fact(":".join(each), where, name) for name, each in content.prepend.items())


def _in_files(layer: ResolvedLayer) -> Iterator[tuple[str, str]]:
    """Yield the requirements that a layer's files name for the image, each with its place.

    Those with a marker are not among them: the image's Python decides whether they are installed.
    """
    for file in layer.files:
        if not is_file_of(file) or PurePosixPath(file.name).name == BUILD_REQUIREMENTS:
            continue
        for line in requirement_lines(file.content):
            if ";" not in line.bare:
                yield line.bare, f"{layer.folder}/{file.name}:{line.line}:{line.column}"


def written(value: Value) -> str:
    """Return a value as a recipe has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_platform(platform: Platform, rocm: str) -> Iterator[tuple[str, Fact]]:
    where = f"platform '{platform.name}'"
    if platform.driver:
        yield "driver", Fact(platform.driver, where)
    for row in platform.variables:
        versions = row.when.get("rocm")
        if row.value and (versions is None or (rocm and version_range.holds(versions, rocm))):
            yield ENVIRONMENT + row.name, Fact(row.value, where, row.name)
