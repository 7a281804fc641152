"""Warn of what a build would otherwise ignore without a word."""

import shlex
from collections.abc import Iterator, Mapping

from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import Problem

_OF_BUILDS = {"DS_BUILD_": "deepspeed", "HOROVOD_": "horovod"}
"""The beginnings of variables that a package's own build reads, and the layer of the package."""
_ON = {"1": "true", "0": "false"}


def warnings(resolved: Resolved, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Yield warnings of layers that are left out, of versions, and of variables for a build."""
    yield from _mostly_left_out(resolved)
    yield from _unknown_versions(resolved)
    yield from _variables(resolved, environment)


def _mostly_left_out(resolved: Resolved) -> Iterator[Problem]:
    left_out = [each.name for each in resolved.layers if each.omitted]
    if 2 * len(left_out) <= len(resolved.layers):
        return
    name, platform = resolved.recipe.name, resolved.platform.name
    what = f"the platform '{platform}' leaves out most layers of '{name}'"
    why = f"the image has no {', '.join(left_out)}"
    hint = f"name another platform: lumicontainer build {name} --platform NAME"
    yield Problem(what, why=why, hint=hint, level="warning")


def _unknown_versions(resolved: Resolved) -> Iterator[Problem]:
    """Yield a warning of each version of the command line that only pip's index knows."""
    for layer in resolved.included():
        version = next((each for each in layer.settings if each.name == "version"), None)
        by_pip = bool(layer.content.pip_installs)
        if version is None or version.origin != "option" or not by_pip:
            continue
        chosen = f"{layer.name}.version={version.value}"
        yield Problem(
            f"{layer.name} {version.value} may not exist",
            version.place,
            f"layer '{layer.name}' has no list of versions; pip looks for this one in the build",
            f"lumicontainer lock {resolved.recipe.name} --set {shlex.quote(chosen)} asks first",
            "warning",
        )


def _variables(resolved: Resolved, environment: Mapping[str, str]) -> Iterator[Problem]:
    layers = {each.name: each for each in resolved.included()}
    for name, value in environment.items():
        layer = next((layer for begin, layer in _OF_BUILDS.items() if name.startswith(begin)), "")
        if layer not in layers:
            continue
        what = f"the build does not read {name} of this shell"
        why = "a step sees the parameters of its layer, and no variables of the host"
        known = {setting.name for setting in layers[layer].settings}
        hint = f"lumicontainer show {layer} --kind layer prints its parameters"
        if name in known:
            hint = f"--set {layer}.{name}={_ON.get(value, value)}"
        yield Problem(what, why=why, hint=hint, level="warning")
