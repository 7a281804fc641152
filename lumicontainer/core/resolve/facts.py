"""Collect the facts about an image before it is built: versions, values, tags of its wheels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from lumicontainer.core.model import GitSource, Platform, UrlSource, Value
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.rules.conditions import COMMIT, ENVIRONMENT, PACKAGE, Fact, Facts
from lumicontainer.inside import version_range

# In a version (2.9.1+rocm6.4), in the address of a wheel, or in that of PyTorch's own index.
_ROCM = re.compile(r"(?:\+|%2B|/whl/)rocm([0-9]+(?:\.[0-9]+)*)")
_CPYTHON = re.compile(r"cp([0-9])([0-9]+)")
_GLIBC = re.compile(r"manylinux_([0-9]+)_([0-9]+)_.*")
OLD_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
"""PEP 600, legacy aliases."""


def facts_of(resolved: Resolved) -> Facts:
    """Return the facts about an image."""
    found: dict[str, tuple[Fact, ...]] = {}
    for layer in resolved.included():
        for name, fact in _of_layer(layer):
            found[name] = (*found.get(name, ()), fact)
    rocm = next((fact.value for fact in found.get("rocm", ())), "")
    for name, fact in _of_platform(resolved.platform, rocm):
        found[name] = (*found.get(name, ()), fact)
    return {
        name: tuple(each for each in facts if each.value) or facts for name, facts in found.items()
    }


def _of_layer(layer: ResolvedLayer) -> Iterator[tuple[str, Fact]]:
    where = f"layer '{layer.name}'"
    version = next((each for each in layer.settings if each.name == "version"), None)
    yield layer.name, Fact(str(version.value), version.place) if version else Fact("", where)
    for setting in layer.settings:
        yield f"{layer.name}.{setting.name}", Fact(_written(setting.value), setting.place)
    for name, value in {**layer.content.apt_versions, **layer.content.provides}.items():
        yield name, Fact(value, where)
    for name, value in layer.content.environment.items():
        yield ENVIRONMENT + name, Fact(value, where)
    for requirement in layer.content.python:
        name, _, pinned = requirement.partition("==")
        yield PACKAGE + normal(name), Fact(pinned, where)
    texts = [(str(setting.value), setting.place) for setting in layer.settings]
    texts += [(requirement, where) for requirement in layer.content.python]
    for text, place in texts:
        for tag in rocm_tags(text):
            yield "wheel.rocm", Fact(tag, place)
    yield from _of_sources(layer, where)


def _of_sources(layer: ResolvedLayer, where: str) -> Iterator[tuple[str, Fact]]:
    for source in layer.content.sources:
        if isinstance(source, GitSource):
            yield f"{layer.name}.{COMMIT}", Fact(source.commit, where)
        elif isinstance(source, UrlSource):
            for name, value in wheel_facts(source.file):
                yield name, Fact(value, f"{where}: {source.file}")


def normal(name: str) -> str:
    """Return the name of a Python package as PEP 503 writes it, without extras or a range."""
    return canonicalize_name(re.split(r"[^A-Za-z0-9._-]", name)[0])


def _written(value: Value) -> str:
    """Return a value as it is written in a recipe."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_platform(platform: Platform, rocm: str) -> Iterator[tuple[str, Fact]]:
    """Yield the facts of a platform, with the variables that may be set with this ROCm."""
    where = f"platform '{platform.name}'"
    if platform.driver:
        yield "driver", Fact(platform.driver, where)
    for row in platform.variables:
        wanted = row.when.get("rocm")
        if row.value and (wanted is None or (rocm and version_range.holds(wanted, rocm))):
            yield ENVIRONMENT + row.name, Fact(row.value, where)


def rocm_tags(text: str) -> list[str]:
    """Return the versions of ROCm that a version or an address names."""
    return _ROCM.findall(text)


def wheel_package(file: str) -> Iterator[tuple[str, str]]:
    """Yield the package and the version in the name of a wheel; nothing for other files."""
    with suppress(InvalidWheelFilename):
        name, version, *_ = parse_wheel_filename(file)
        yield name, str(version)


def wheel_facts(file: str) -> Iterator[tuple[str, str]]:
    """Yield the target of a wheel from the name of its file, such as ``wheel.python`` 3.12.

    A wheel that fits every Python or every glibc yields no fact about it.
    """
    try:
        _, version, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return
    yield from (("wheel.rocm", tag) for tag in rocm_tags(str(version)))
    # abi3 runs on every later Python.
    exact = {tag.interpreter for tag in tags if _CPYTHON.fullmatch(tag.abi)}
    if len(exact) == 1 and (python := _CPYTHON.fullmatch(exact.pop())):
        yield "wheel.python", ".".join(python.groups())
    libraries = [library for tag in tags if (library := _glibc(tag.platform))]
    if libraries:
        yield "wheel.glibc", ".".join(map(str, min(libraries)))


def _glibc(platform: str) -> tuple[int, int] | None:
    """Return the oldest glibc that a wheel's platform tag promises to run with."""
    if found := _GLIBC.fullmatch(platform):
        return int(found[1]), int(found[2])
    return OLD_GLIBC.get(platform.partition("_")[0])
